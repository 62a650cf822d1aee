package config

import (
	"math"
	"math/big"
	"strings"
	"time"
)

// parseDuration reads Go's form of a duration, and d for 24 hours: "500ms", "1h30m", "1d12h". It says what is wrong in
// words that fit behind "is not a duration: ".
func parseDuration(text string) (time.Duration, string) {
	if len(text) > 100 {
		return 0, "it is too long"
	}
	rest, negative := text, false
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		negative = rest[0] == '-'
		rest = rest[1:]
	}
	if rest == "" {
		return 0, "it is empty"
	}
	if rest == "0" {
		return 0, ""
	}
	total := new(big.Rat)
	for rest != "" {
		digits := numberPrefix(rest)
		if digits == "" {
			return 0, "a number is expected before " + quoted(rest)
		}
		rest = rest[len(digits):]
		unit := unitPrefix(rest)
		rest = rest[len(unit):]
		scale, ok := durationUnits[unit]
		if !ok && unit == "" {
			return 0, "the unit is missing"
		}
		if !ok {
			return 0, "unknown unit " + quoted(unit)
		}
		amount, ok := new(big.Rat).SetString(digits)
		if !ok {
			return 0, quoted(digits) + " is not a number"
		}
		total.Add(total, amount.Mul(amount, new(big.Rat).SetInt64(int64(scale))))
	}
	nanos := new(big.Int).Quo(total.Num(), total.Denom())
	if !nanos.IsInt64() || nanos.Int64() == math.MaxInt64 {
		return 0, "it is longer than 292 years"
	}
	if negative {
		return -time.Duration(nanos.Int64()), ""
	}
	return time.Duration(nanos.Int64()), ""
}

var durationUnits = map[string]time.Duration{
	"ns": time.Nanosecond, "us": time.Microsecond, "µs": time.Microsecond, "μs": time.Microsecond,
	"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
}

// parseSize reads a whole number of bytes: "64KiB", "1.5GiB". Its second answer is as parseDuration's.
func parseSize(text string) (int64, string) {
	digits := numberPrefix(text)
	if digits == "" {
		if text == "" {
			return 0, "it is empty"
		}
		return 0, "a number is expected before " + quoted(text)
	}
	unit := text[len(digits):]
	scale, ok := sizeUnits[unit]
	if !ok && unit == "" {
		return 0, "the unit is missing"
	}
	if !ok {
		near := nearest(strings.TrimSpace(unit), sizeWords, 2)
		if whole := shortUnits[strings.ToLower(strings.TrimSpace(unit))]; whole != "" {
			near = whole
		}
		if near != "" {
			return 0, "unknown unit " + quoted(unit) + ", did you mean " + quoted(digits+near) + "?"
		}
		return 0, "unknown unit " + quoted(unit)
	}
	amount, ok := new(big.Rat).SetString(digits)
	if !ok {
		return 0, quoted(digits) + " is not a number"
	}
	amount.Mul(amount, new(big.Rat).SetInt64(scale))
	if !amount.IsInt() {
		return 0, "it is not a whole number of bytes"
	}
	if !amount.Num().IsInt64() {
		return 0, "it is larger than any file"
	}
	return amount.Num().Int64(), ""
}

var sizeWords = []string{"B", "KB", "MB", "GB", "KiB", "MiB", "GiB", "TiB"}

// shortUnits are what people write elsewhere.
var shortUnits = map[string]string{"k": "KiB", "m": "MiB", "g": "GiB", "t": "TiB"}

var sizeUnits = map[string]int64{
	"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}

// numberPrefix is the digits, with at most one point, that text starts with. The length is bounded so that a number of
// a million digits costs nothing.
func numberPrefix(text string) string {
	end, point, digits := 0, false, 0
	for end < len(text) && end < 30 {
		switch c := text[end]; {
		case c >= '0' && c <= '9':
			digits++
		case c == '.' && !point:
			point = true
		default:
			if digits == 0 {
				return ""
			}
			return text[:end]
		}
		end++
	}
	if digits == 0 {
		return ""
	}
	return text[:end]
}

func unitPrefix(text string) string {
	end := strings.IndexAny(text, "0123456789.")
	if end < 0 {
		return text
	}
	return text[:end]
}
