//go:build race

package config

// underRace tells that the race detector watches, which makes everything ten times as slow.
const underRace = true
