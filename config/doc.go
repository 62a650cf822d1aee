// Package config reads what people write: HCL in, a tree.Spec and diagnostics out. It is the only room that knows HCL, and
// it starts nothing.
//
// The way through it: files.go finds and parses files, guard.go keeps from the parser what would make it run away,
// syntax.go puts its complaints into this language's words. schema.go decodes blocks by tables, which stand in
// language.go, hostblock.go, supervision.go, workerblock.go and workerparts.go: one line an attribute, for decoding,
// "did you mean" and Reference alike. value.go and lists.go read values, expr.go evaluates them, text.go keeps their
// bytes. build.go turns blocks into the tree, checks.go looks at what only the whole can tell, hash.go names its meaning.
package config
