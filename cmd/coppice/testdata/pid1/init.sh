exec coppice run /bin/host.hcl
