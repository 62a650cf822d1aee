package config

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// quoted writes text as a reader would write it in the file, cut if it is long.
func quoted(text string) string {
	const most = 60
	if len(text) > most {
		end := most
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		return strconv.Quote(text[:end]) + "…"
	}
	return strconv.Quote(text)
}

// listed joins words for a sentence: `"a", "b" or "c"`.
func listed(words []string, conjunction string) string {
	q := make([]string, len(words))
	for i, w := range words {
		q[i] = strconv.Quote(w)
	}
	if len(q) < 2 {
		return strings.Join(q, "")
	}
	return strings.Join(q[:len(q)-1], ", ") + " " + conjunction + " " + q[len(q)-1]
}

// nearest is the word most like given, or "" if none is within the allowed number of slips.
func nearest(given string, words []string, allowed int) string {
	best, found := allowed+1, ""
	for _, w := range words {
		if d := slips(strings.ToLower(given), strings.ToLower(w)); d < best {
			best, found = d, w
		}
	}
	return found
}

// allowedSlips is how far a word may be off to be guessed at: guesses at short words are mostly wrong.
func allowedSlips(word string) int { return min(3, max(1, len(word)/3)) }

// slips counts the letters added, dropped, changed or swapped with their neighbour between two words.
func slips(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(x)][len(y)]
}

// article puts "a" or "an" before a word.
func article(word string) string {
	if word != "" && strings.ContainsRune("aeiou", rune(word[0])) {
		return "an " + word
	}
	return "a " + word
}

// validName tells whether a label may name a tenant, app or worker: [a-z0-9]([a-z0-9_-]{0,62}).
func validName(name string) bool {
	if name == "" || len(name) > 63 {
		return false
	}
	for i := range len(name) {
		c := name[i]
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '_' && c != '-') {
			return false
		}
	}
	return true
}
