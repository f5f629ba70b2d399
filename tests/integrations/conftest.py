"""The tests of integrations run by ``make integrations``, in an environment that has them all."""

from __future__ import annotations

import importlib.util

from hypothesis import HealthCheck, settings

# The examples are the same in every run, as in the rest of the suite.
settings.register_profile(
    "same-examples",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    derandomize=True,
)
settings.load_profile("same-examples")

# The framework of each test file; without it the file is not collected.
NEEDS = {
    "test_langchain.py": "langchain_tests",
    "test_haystack.py": "haystack",
    "test_llama_index.py": "llama_index",
    "test_mcp.py": "mcp",
    "test_openai.py": "openai",
    "test_onnx.py": "onnxruntime",
    "test_hub.py": "huggingface_hub",
    "test_quantized.py": "sentence_transformers",
    "test_mteb.py": "mteb",
    "test_beir.py": "beir",
}
collect_ignore = [
    name for name, module in NEEDS.items() if importlib.util.find_spec(module) is None
]
