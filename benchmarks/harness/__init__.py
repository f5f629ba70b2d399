"""What benchmarks share: codes and corpora, the systems beside ours, and clients that load them."""
