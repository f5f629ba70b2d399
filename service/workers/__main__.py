"""One process of several; :mod:`hummingbit.service.workers.supervisor` starts it."""

from hummingbit.service.workers.supervisor import work

work()
