package output

import (
	"unicode"
	"unicode/utf8"
)

// Escape returns b as text that is harmless on a terminal and cannot look like more than one line. Tab stays; other control
// characters become \r, \n, \x1b and the like, bytes that are not UTF-8 become \xNN, and C1 controls, line and paragraph
// separators and invisible or reordering format characters become \uNNNN. Backslashes stay as they are: the escapes are for
// eyes, and JSON is for programs.
func Escape(b []byte) string { return string(appendEscaped(make([]byte, 0, len(b)), b)) }

const hexDigits = "0123456789abcdef"

// harmless tells whether r may reach a terminal as it is. Joiners are let through: emoji and several scripts need them.
func harmless(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return r >= ' ' && r != 0x7f
	case r == '\u200c' || r == '\u200d':
		return true
	}
	return !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co)
}

func appendEscaped(dst, b []byte) []byte {
	start := 0
	for i := 0; i < len(b); {
		c := b[i]
		if c >= ' ' && c < 0x7f || c == '\t' {
			i++
			continue
		}
		r, size := rune(c), 1
		if c >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(b[i:])
			if harmless(r) && (r != utf8.RuneError || size > 1) {
				i += size
				continue
			}
		}
		dst = append(dst, b[start:i]...)
		switch {
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\n':
			dst = append(dst, `\n`...)
		case size == 1:
			dst = append(dst, '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
		default:
			dst = appendUnicode(dst, r)
		}
		i += size
		start = i
	}
	return append(dst, b[start:]...)
}

// appendUnicode appends \uNNNN, or \UNNNNNNNN beyond the first plane.
func appendUnicode(dst []byte, r rune) []byte {
	digits := 4
	if r > 0xffff {
		digits = 8
	}
	dst = append(dst, '\\', "uU"[digits/8])
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		dst = append(dst, hexDigits[r>>shift&15])
	}
	return dst
}

// appendJSONString appends the inside of a JSON string. It is our own because encoding/json lets C1 controls and
// reordering characters through, and needs its input as a string.
func appendJSONString(dst, b []byte) []byte {
	start := 0
	for i := 0; i < len(b); {
		c := b[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			i++
			continue
		}
		r, size := rune(c), 1
		if c >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(b[i:])
			if harmless(r) && (r != utf8.RuneError || size > 1) {
				i += size
				continue
			}
		}
		dst = append(dst, b[start:i]...)
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', c)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\n':
			dst = append(dst, `\n`...)
		case r > 0xffff:
			r -= 0x10000
			dst = appendUnicode(dst, 0xd800+r>>10)
			dst = appendUnicode(dst, 0xdc00+r&0x3ff)
		case r == utf8.RuneError:
			dst = append(dst, "\uFFFD"...)
		default:
			dst = appendUnicode(dst, r)
		}
		i += size
		start = i
	}
	return append(dst, b[start:]...)
}
