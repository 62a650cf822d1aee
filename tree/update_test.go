package tree

import "flag"

// update rewrites the transcripts and golden files under testdata with what the machines do now; the difference is
// what a change of behaviour looks like.
var update = flag.Bool("update", false, "rewrite the transcripts and golden files under testdata")
