package control

import (
	"net/http"

	"github.com/coppice-run/coppice/tree"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func (s *server) metrics(w http.ResponseWriter, r *http.Request, _ Scope) error {
	s.metricz.ServeHTTP(w, r)
	return nil
}

func metricsHandler(h Host) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collector{h}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}

// collector reads the state at each scrape; nothing is counted twice or kept beside the journal.
type collector struct{ host Host }

var (
	descState = prometheus.NewDesc("coppice_node_state", "1 for the state that the node is in.",
		[]string{"path", "kind", "state"}, nil)
	descReady    = prometheus.NewDesc("coppice_worker_ready", "1 while the worker is ready.", []string{"path"}, nil)
	descRestarts = prometheus.NewDesc("coppice_restarts_total", "Automatic restarts of the node.", []string{"path", "kind"}, nil)
	descLines    = prometheus.NewDesc("coppice_log_lines_total", "Lines that the worker printed.", []string{"path"}, nil)
	descBytes    = prometheus.NewDesc("coppice_log_bytes_total", "Bytes that the worker printed.", []string{"path"}, nil)
	descDropped  = prometheus.NewDesc("coppice_log_dropped_total", "Lines dropped over the rate.", []string{"path"}, nil)
)

func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descState, descReady, descRestarts, descLines, descBytes, descDropped} {
		ch <- d
	}
}

func (c collector) Collect(ch chan<- prometheus.Metric) {
	for _, n := range c.host.Status().Nodes {
		ch <- prometheus.MustNewConstMetric(descState, prometheus.GaugeValue, 1, n.Path, string(n.Kind), string(n.State))
		ch <- prometheus.MustNewConstMetric(descRestarts, prometheus.CounterValue, float64(n.Restarts), n.Path, string(n.Kind))
		if n.Leaf != nil && n.Kind == tree.KindWorker {
			ready := 0.0
			if n.Ready {
				ready = 1
			}
			ch <- prometheus.MustNewConstMetric(descReady, prometheus.GaugeValue, ready, n.Path)
		}
	}
	for _, o := range c.host.Output() {
		ch <- prometheus.MustNewConstMetric(descLines, prometheus.CounterValue, float64(o.Lines), o.Path)
		ch <- prometheus.MustNewConstMetric(descBytes, prometheus.CounterValue, float64(o.Bytes), o.Path)
		ch <- prometheus.MustNewConstMetric(descDropped, prometheus.CounterValue, float64(o.Dropped), o.Path)
	}
}
