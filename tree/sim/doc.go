// Package sim runs a tree of supervisor and worker machines under virtual time. It starts nothing: leaves are simulated, a
// minute takes as long as its facts, and the same world always takes the same course.
package sim
