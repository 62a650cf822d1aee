package tree

// This file is the end of a worker: the stop sequence, the exit, and the death of what is left.

// halt is the parent's wish. The first cause of an end stays its reason, so a halt that comes later only hastens.
func (w *Worker) halt(f Halt) {
	first := w.reason == nil
	if first {
		w.reason = haltReason(f.Reason)
		w.cause = f.Seq
	}
	switch {
	case w.phase == workerNew:
		w.quit()
	case f.Kill && w.phase != workerKilling:
		w.cause = f.Seq
		w.kill(haltReason(f.Reason).Text)
	case !first || w.phase == workerKilling:
	case w.phase == workerSpawning:
		w.enter(workerSpawning, w.run.Stop.Timeout)
	default:
		w.leave()
	}
}

// haltReason fills in what a Halt left out.
func haltReason(r Reason) *Reason {
	if r.Class == "" {
		r.Class = Shutdown
	}
	if r.Text == "" {
		r.Text = "shutdown"
	}
	return &r
}

// giveUp begins the stop sequence by the machine's own decision. The reason is one that programs compare; detail is what
// people want to know beside it.
func (w *Worker) giveUp(text, detail string, seq Seq) {
	w.begun(text, detail, seq)
	w.leave()
}

// begun records that the machine itself ends this incarnation; nobody else could tell the journal.
func (w *Worker) begun(text, detail string, seq Seq) {
	w.reason = &Reason{Class: Crash, Text: text}
	r := Record{Kind: EventStopping, Reason: text, Cause: w.or(seq)}
	if detail != "" {
		r.Data = map[string]any{"detail": detail}
	}
	w.record(r)
}

// leave is the stop sequence from its start.
func (w *Worker) leave() {
	w.unprobe()
	if w.run.Stop.File {
		w.order(StopFile{Reason: w.reason.Text, Cause: w.cause})
		w.enter(workerGrace, w.run.Stop.Grace)
		return
	}
	w.signal()
}

// signal is its middle. KILL as the configured signal is what Kill does, and a timeout of 0 leaves no time to obey.
func (w *Worker) signal() {
	if w.stopSignal() == "KILL" || w.run.Stop.Timeout <= 0 {
		w.kill(w.reason.Text)
		return
	}
	w.order(Signal{Name: w.stopSignal(), Reason: w.reason.Text, Cause: w.cause})
	w.enter(workerAsked, w.run.Stop.Timeout)
}

func (w *Worker) stopSignal() string {
	if w.run.Stop.Signal == "" {
		return "TERM"
	}
	return w.run.Stop.Signal
}

// kill is its end. It may come again when a process turns up after the first.
func (w *Worker) kill(reason string) {
	w.unprobe()
	w.killReason = reason
	w.order(Kill{Reason: reason, Cause: w.cause})
	w.enter(workerKilling, killBound)
}

func (w *Worker) unprobe() {
	if w.probing {
		w.probing = false
		w.order(Unprobe{Cause: w.cause})
	}
}

// ended is the exit of the process that was spawned. Its group may live on: unasked, that is killed; during a stop it has
// the time that the stop gives. An exit that overtakes its Spawned is one all the same.
func (w *Worker) ended(f Exited) {
	if w.exited || w.phase == workerNew {
		return
	}
	w.spawned, w.exited = true, true
	how := w.exitReason(f.Exit)
	unasked := w.reason == nil
	if unasked {
		w.reason = &how
		w.cause = w.or(f.Seq)
	}
	exit := f.Exit
	w.record(Record{Kind: EventExited, Reason: how.Text, Exit: &exit, Data: exitData(exit), Cause: w.cause})
	switch {
	case w.gone:
		w.quit()
	case unasked:
		w.kill("left over after " + how.Text)
	case w.phase == workerSpawning, w.phase == workerGrace:
		w.signal() // grace was for the one that left
	}
}

// exitData is the data of an exited entry.
func exitData(e Exit) map[string]any {
	data := map[string]any{"code": e.Code, "signal": e.Signal, "ran": e.Ran.Seconds()}
	if e.Core {
		data["core"] = true
	}
	if e.OOM {
		data["oom"] = true
	}
	return data
}

// vanished is the news that nothing is left. It may overtake the exit, which is then waited for, but not for ever.
func (w *Worker) vanished(f Gone) {
	if w.gone || w.phase == workerNew || (!w.spawned && w.phase != workerKilling) {
		return
	}
	w.gone = true
	if f.Killed > 0 || len(f.Left) > 0 {
		w.record(Record{Kind: EventKilled, Reason: w.killWhy(), Data: killedData(f.Killed, f.Left), Cause: w.cause})
	}
	switch {
	case w.exited || !w.spawned:
		w.quit()
	case w.phase == workerStarting || w.phase == workerUp:
		w.unprobe()
		w.enter(workerKilling, killBound)
	}
}

func (w *Worker) killWhy() string {
	if w.killReason != "" {
		return w.killReason
	}
	return "left over"
}

// killedData is the data of a killed entry.
func killedData(killed int, left []int) map[string]any {
	data := map[string]any{"killed": killed}
	if len(left) > 0 {
		data["left"] = left
	}
	return data
}

// unkillable ends the wait for a death that does not come, or for an exit that nobody reports.
func (w *Worker) unkillable() {
	if !w.gone {
		var left []int
		if w.spawned && !w.exited {
			left = []int{w.pid}
		}
		w.record(Record{Kind: EventKilled, Reason: "still there " + shortDuration(killBound) + " after KILL",
			Data: killedData(0, left), Cause: w.cause})
	}
	if w.reason == nil {
		w.reason = &Reason{Class: Crash, Text: "exit unknown"}
		w.cause = w.boot
	}
	w.quit()
}

func (w *Worker) quit() {
	w.phase = workerOver
	w.deadline, w.watchdog = 0, 0
	w.order(Quit{Reason: *w.reason, Cause: w.cause})
}
