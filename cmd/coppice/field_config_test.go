package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The field's cases of configurations: every mistake is told with its place, all at once, and what is right arrives as it
// was written.

func TestFieldEveryMistakeAtOnce(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	d.write("conf/host.hcl", d.hostBlock(""))
	d.write("conf/one.hcl", `app "one" {
  worker "w" {
    command = ["sh", "-c", "touch `+d.dir+`/started"]
    restrat = "always"
    restart { policy = "permanant" }
    worker "inner" { command = ["true"] }
    stop { timeout = 5 }
    ready = true
    env { A = "b" }
  }
  worker "x" {
    command = ["true"]
    command = ["false"]
    restart {
      backoff = "5 sec"
      cap     = "-1s"
    }
    stop { signal = "TREM" }
    after = ["nobody"]
  }
  worker "a" {
    command = ["true"]
    after   = ["b"]
  }
  worker "b" {
    command = ["true"]
    after   = ["c"]
  }
  worker "c" {
    command = ["true"]
    after   = ["a"]
  }
  worker "port" {
    command = ["true"]
    listen  = "inherit"
    address = "127.0.0.1:70000"
  }
  worker "loop" {
    command = ["true"]
    after   = ["loop"]
  }
  worker "UPPER" { command = ["true"] }
  worker "user" {
    command = ["true"]
    user    = "no-such-user-here"
  }
}
`)
	d.write("conf/two.hcl", "app \"two\" {\n\tworker \"w\" {\n\t\tcommand = \"true\"\n\t\tcount = -1\n\t}\n\tworker \"w\" { command = [\"true\"] }\n\tworker \"none\" {\n\t}\n}\napp \"one\" {\n}\n")
	d.write("conf/three.hcl", "app \"three\" {\r\n  worker \"w\" {\r\n    command = [\"true\"]\r\n    limitz { }\r\n  }\r\n}\r\n")
	for _, verb := range []string{"check", "run"} {
		began := time.Now()
		out, errs, status := d.cli(verb, filepath.Join(d.dir, "conf"))
		if status != 1 || out != "" || time.Since(began) > 20*time.Second {
			t.Errorf("%s: status %d after %s, stdout %q", verb, status, time.Since(began), out)
		}
		for place, word := range map[string]string{
			"one.hcl:4:5": `Did you mean the block "restart"`, "one.hcl:5:15": "permanent", "one.hcl:6:5": "worker", "one.hcl:7:12": "5s", "one.hcl:8:5": "ready",
			"one.hcl:9:5": "env", "one.hcl:13:5": "one.hcl:12:5", "one.hcl:15:7": "5 sec", "one.hcl:16:7": "above zero", "one.hcl:18:12": "TERM",
			"one.hcl:19:5": "nobody", "one.hcl:31:5": "a -> b -> c -> a", "one.hcl:36:5": "70000", "one.hcl:40:5": "after itself", "one.hcl:42:3": "UPPER",
			"one.hcl:45:5": "no-such-user-here",
			"two.hcl:3:":   "command", "two.hcl:4:": "count", "two.hcl:6:": "two.hcl:2", "two.hcl:7:": "command", "two.hcl:10:": "one.hcl:1", "three.hcl:4:5": "limits",
		} {
			if !strings.Contains(errs, place) || !strings.Contains(errs, word) {
				t.Errorf("%s: nothing at %s about %q", verb, place, word)
			}
		}
		if n := len(regexp.MustCompile(`(?m)^\S+\.hcl:\d+:\d+: error: `).FindAllString(errs, -1)); n < 20 {
			t.Errorf("%s: %d errors", verb, n)
		}
		if m := regexp.MustCompile(`(?i)\bcty\b|goroutine|\*?tree\.[A-Z]|hcl\.[A-Z]|interface \{|panic|\bnil\b`).FindString(errs); m != "" {
			t.Errorf("%s: %q is not for people", verb, m)
		}
		if t.Failed() {
			t.Log(errs)
			break
		}
	}
	if _, err := os.Stat(filepath.Join(d.dir, "started")); err == nil {
		t.Error("a worker was started")
	}
	if _, err := os.Stat(d.run); err == nil {
		t.Error("a folder was made")
	}
}

func TestFieldOddFiles(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	good := "app \"a\" {\n  worker \"w\" { command = [\"true\"] }\n}\n"
	long := strings.Repeat("# a comment that is here to take up room\n", 20_000)
	for name, c := range map[string]struct {
		text   string
		status int
		word   string
	}{
		"plain": {good, 0, ""}, "crlf": {strings.ReplaceAll(good, "\n", "\r\n"), 0, ""}, "tabs": {strings.ReplaceAll(good, "  ", "\t"), 0, ""},
		"bom": {"\xef\xbb\xbf" + good, -1, "byte order mark"}, "utf16": {"\xff\xfea\x00p\x00p\x00", 1, ".hcl:"}, "truncated": {good[:len(good)-4], 1, ".hcl:"},
		"empty": {"", 1, "nothing to run"}, "comment": {"# nothing\n", 1, "nothing to run"}, "binary": {"\x7fELF\x00\x01", 1, ".hcl:"},
		"long": {long + good, -1, ""}, "deep": {strings.Repeat("a {\n", 10000), 1, ".hcl:"}, "escape": {"app \"a\" {\n  bad = 1 # \x1b[2J\x1b]0;x\x07\n}\n", 1, ".hcl:2:"},
		"template": {"app \"a\" {\n  worker \"w\" {\n    command = [\"echo\", \"${HOME}\"]\n  }\n}\n", 1, "$${"},
		"nul":      {"app \"a\" {\n  worker \"w\" { command = [\"a\\u0000b\"] }\n}\n", 1, ".hcl:2:"},
		"env":      {"app \"a\" {\n  worker \"w\" {\n    command = [\"true\"]\n    env = {\n      \"A=B\" = \"c\"\n      \"\" = \"d\"\n      N = \"a\\u0000b\"\n      COPPICE_PATH = \"x\"\n      PORT = 1\n    }\n  }\n}\n", 1, "A=B"},
	} {
		began := time.Now()
		_, errs, status := d.cli("check", d.write("odd/"+name+".hcl", c.text))
		if c.status >= 0 && status != c.status || c.status == -1 && status != 0 && !strings.Contains(errs, c.word) || c.status == 1 && !strings.Contains(errs, c.word) {
			t.Errorf("%s: status %d: %.500s", name, status, errs)
		}
		if strings.ContainsAny(errs, "\x1b\x07\x00") || len(errs) > 1<<20 || time.Since(began) > 20*time.Second {
			t.Errorf("%s: %d bytes after %s: %.200q", name, len(errs), time.Since(began), errs)
		}
	}
}

// odd are values that have been eaten, expanded or trimmed somewhere.
func odd() []string {
	return []string{"100%", "%(x)s", "$HOME", "${X}", "$${X}", "%{if}", "%%{if}", "a#b ; c", `"q"`, "it's", `back\slash\n`, `\\`, "emoji 🌲 ünï", "tab\there",
		"new\nline", "cr\rhere", "", " ", "  both ends  ", "*", "~", "?", "[a-z]", ";", "|", "&&", "> /tmp/x", "`id`", "$(id)", "--", "-n", "\x01\x1b[2J\x7f",
		"//", "/* no */", "<<EOT", "null", "true", "0x10", strings.Repeat("k", 100_000), "e\u0301 \u202e \u2028 \ufeff"}
}

// quoted writes a string in HCL.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f || r == '\ufeff':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(b.String())
}

func TestFieldValuesArriveAsWritten(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	var argv, env strings.Builder
	want := map[string]string{"dot.ted": "1", "da-sh": "2", "lower": "3", "MiXed_9": "4", "NUMBER": "42", "FRACTION": "1.5", "YES": "true", "AT": "from tenant"}
	for i, v := range odd() {
		fmt.Fprintf(&argv, ", %s", quoted(v))
		fmt.Fprintf(&env, "      V%d = %s\n", i, quoted(v))
		want["V"+strconv.Itoa(i)] = v
	}
	text := `tenant "t" {
  env = { AT = "from tenant", OVER = "tenant" }
  app "a" {
    env = { OVER = "app" }
    worker "w" {
      command = concat_here
      env = {
        "dot.ted" = "1"
        "da-sh"   = "2"
        lower     = "3"
        MiXed_9   = "4"
        NUMBER    = 42
        FRACTION  = 1.5
        YES       = true
        OVER      = "worker"
env_here      }
    }
  }
}
`
	script := d.write("dump.py", `
import json, os
a = open('/proc/self/cmdline', 'rb').read().split(b'\0')[2:-1]
e = [v.split(b'=', 1) for v in open('/proc/self/environ', 'rb').read().split(b'\0')[:-1]]
with open('`+d.dir+`/dump.tmp', 'w') as f: json.dump({'argv': [x.decode() for x in a], 'env': {k.decode(): v.decode() for k, v in e}}, f)
os.rename('`+d.dir+`/dump.tmp', '`+d.dir+`/dump')
import time; time.sleep(1000)
`)
	d.write("coppice.hcl", d.hostBlock("")+strings.NewReplacer("concat_here", fmt.Sprintf(`["python3", %q%s]`, script, argv.String()), "env_here", env.String()).Replace(text))
	d.start()
	var got struct {
		Argv []string
		Env  map[string]string
	}
	d.until("the dump", func() bool {
		b, err := os.ReadFile(filepath.Join(d.dir, "dump"))
		return err == nil && json.Unmarshal(b, &got) == nil
	})
	if !slices.Equal(got.Argv, odd()) {
		for i, v := range odd() {
			if i >= len(got.Argv) || got.Argv[i] != v {
				t.Errorf("argument %d is %.100q, want %.100q", i, append(got.Argv, "missing")[min(i, len(got.Argv))], v)
			}
		}
	}
	want["OVER"] = "worker"
	for k, v := range want {
		if got.Env[k] != v {
			t.Errorf("%s is %.100q, want %.100q", k, got.Env[k], v)
		}
		delete(got.Env, k)
	}
	for k := range got.Env {
		if !strings.HasPrefix(k, "COPPICE_") && k != "PATH" && k != "HOME" && k != "LANG" {
			t.Errorf("%s was not asked for", k)
		}
	}
}

// TestFieldTooMuch: what the kernel does not take is told with the variable's name, before anything runs or as the reason.
func TestFieldTooMuch(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "")
	var many strings.Builder
	big := d.write("big", strings.Repeat("x", 100_000))
	for i := range 30 {
		fmt.Fprintf(&many, "      M%d = file(%q)\n", i, big)
	}
	for about, c := range map[string]struct{ body, word string }{
		"one variable":  {"    env = { HUGE = \"" + strings.Repeat("x", 140_000) + "\" }\n", "HUGE"},
		"one argument":  {"    env = { A = \"b\" }\n", "argument"},
		"all of it all": {"    env = {\n" + many.String() + "    }\n", "M"},
	} {
		command := `["sleep", "1000"]`
		if about == "one argument" {
			command = `["sleep", "` + strings.Repeat("y", 140_000) + `"]`
		}
		d.write("coppice.hcl", d.hostBlock("")+"app \"a\" {\n  worker \"w\" {\n    command = "+command+"\n"+c.body+"  }\n}\n")
		_, errs, status := d.cli("check", filepath.Join(d.dir, "coppice.hcl"))
		if status == 1 && strings.Contains(errs, c.word) {
			continue
		}
		d.start()
		if _, errs, status := d.cli("restart", "w"); status != 1 || !strings.Contains(errs, c.word) && !strings.Contains(errs, "too long") {
			t.Errorf("%s: %d %.300s", about, status, errs)
		}
		d.stop()
	}
}
