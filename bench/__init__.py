"""What Fencepost's voter costs and gains, measured beside etcd on the same machine: `make bench`."""
