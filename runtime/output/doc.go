// Package output reads what workers print and keeps it where people look: a ring in memory for each worker, log files that
// rotate, the daemon's own standard output, and followers. It is built so that no reader's trouble reaches a worker: a
// worker that floods loses lines (counted), a full disk, a blocked terminal or a stopped follower loses its copy (counted),
// and the worker itself writes on.
//
// # Reading
//
// Pipes wait together in one epoll, so a silent worker costs two descriptors and a few hundred bytes and no goroutine. A
// pipe with something to read gets a goroutine and a pooled buffer until it is empty again.
//
// # Lines
//
// A line ends at a newline, and its text is every byte before it, as written: NUL, carriage return and invalid UTF-8
// included. A line longer than max_line is cut there (before a character that the cut would break) and shown with
// " [cut N bytes]" at its end, N being all that was left out. If a longer line has not ended one second after it became too
// long, what there is of it is given out as a line of its own and the rest counts as the next. What has no newline when the
// process ends is a line too.
//
// A rate of 0 or less means no limit. Of a limited worker, excess lines are dropped whole; at most once a second, and when
// its process has ended, one line in its stream tells how many ("dropped"). Lines kept and lines dropped together are the
// lines sent. Checks for a readiness line see all lines, dropped ones too.
//
// # Log files
//
// DIR/TENANT/APP/WORKER.N.log, mode 0640 in folders of mode 0750. One record a line:
//
//	2006-01-02T15:04:05.000000Z INCARNATION out|err TEXT
//
// separated by one space each; TEXT is the raw text to the newline, which it cannot contain. When a record would take the
// file over max_size it becomes WORKER.N.log.1, .1 becomes .2, and so on; max_files counts all of them. A record is never
// split over two files. No symbolic link is followed on the way, and a file that is not a regular file with one name is
// refused. The rotation is our own: lumberjack keeps a goroutine for each file for ever, follows links, scans the folder at
// each rotation and knows no record boundary.
package output
