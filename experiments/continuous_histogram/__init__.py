"""The continuous histogram loss, on synthetic similarities and on MNIST."""
