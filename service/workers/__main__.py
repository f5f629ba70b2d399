"""One process of several; :mod:`hummingbit.service.workers.supervisor` starts it."""

import hummingbit.threads  # noqa: F401 - before the libraries that read the environment
from hummingbit.service.workers.supervisor import work

work()
