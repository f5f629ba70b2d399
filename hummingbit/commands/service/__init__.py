"""Commands that run a service, or inspect one."""
