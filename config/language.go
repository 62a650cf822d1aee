package config

import (
	"slices"
)

// language is every block of the configuration, as tables. They are made for each load: a table that names its own
// decoder could not be a package variable.
type language struct {
	top        schema[root]
	hosts      schema[hostBlock]
	controls   schema[Control]
	tenants    schema[tenantBlock]
	apps       schema[appBlock]
	workers    schema[workerBlock]
	supervises schema[superviseBlock]
	pools      schema[superviseBlock] // supervise in a worker
	restarts   schema[restartBlock]
	stops      schema[stopBlock]
	readies    schema[readyBlock]
	healths    schema[healthBlock]
	heartbeats schema[heartbeatBlock]
	logs       schema[logsBlock]
	limits     schema[limitsBlock] // in a worker, tenant or app
}

func newLanguage() language {
	return language{
		top: topTable(), hosts: hostTable(), controls: controlTable(), tenants: tenantTable(), apps: appTable(),
		workers: workerTable(), supervises: superviseTable(), pools: poolTable(), restarts: restartTable(),
		stops: stopTable(), readies: readyTable(), healths: healthTable(), heartbeats: heartbeatTable(),
		logs: logsTable(), limits: limitsTable(),
	}
}

// vocabularies are the words of all blocks.
func (l *language) vocabularies() []vocabulary {
	return []vocabulary{
		l.hosts.vocabulary(), l.controls.vocabulary(), l.tenants.vocabulary(), l.apps.vocabulary(), l.workers.vocabulary(),
		l.supervises.vocabulary(), l.restarts.vocabulary(), l.stops.vocabulary(), l.readies.vocabulary(),
		l.healths.vocabulary(), l.heartbeats.vocabulary(), l.logs.vocabulary(), l.limits.vocabulary(),
	}
}

// homes are the blocks in which a word means something.
func (d *decoder) homes(word string) []string {
	var homes []string
	for _, v := range d.vocabularies() {
		if slices.Contains(v.attrs, word) || slices.Contains(v.blocks, word) {
			homes = append(homes, v.block)
		}
	}
	if slices.Contains([]string{"host", "tenant", "locals", "app"}, word) {
		homes = append([]string{"the top of a file"}, homes...)
	}
	return homes
}

// Attribute is one attribute of the language, as the reference prints it.
type Attribute struct {
	Block   string // where it stands: "worker", "stop"
	Name    string
	Form    string // the kind of value, in a word or two
	Default string // as it would be written, "" for none
	Class   Class  // what a change of it means for what runs already
	Doc     string
}

// Reference lists every attribute of the language that this version understands, block by block.
func Reference() []Attribute {
	l := newLanguage()
	var out []Attribute
	out = append(out, reference(&l.hosts)...)
	out = append(out, reference(&l.controls)...)
	out = append(out, reference(&l.tenants)...)
	out = append(out, reference(&l.apps)...)
	out = append(out, reference(&l.supervises)...)
	out = append(out, reference(&l.restarts)...)
	out = append(out, reference(&l.workers)...)
	out = append(out, reference(&l.readies)...)
	out = append(out, reference(&l.healths)...)
	out = append(out, reference(&l.heartbeats)...)
	out = append(out, reference(&l.stops)...)
	out = append(out, reference(&l.logs)...)
	return append(out, reference(&l.limits)...)
}

func reference[T any](table *schema[T]) []Attribute {
	var out []Attribute
	for i := range table.attrs {
		a := &table.attrs[i]
		if a.doc == "" {
			continue // not built yet
		}
		out = append(out, Attribute{Block: table.name, Name: a.name, Form: a.form, Default: a.standard, Class: a.class, Doc: a.doc})
	}
	return out
}
