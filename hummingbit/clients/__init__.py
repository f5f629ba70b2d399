"""The clients of a service: calls, responses, and the methods that wait or are awaited."""
