//go:build !linux

// Command bench measures Coppice, which needs Linux.
package main

import "fmt"

func main() { fmt.Println("cannot measure here: Coppice needs Linux") }
