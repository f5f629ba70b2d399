/* A plugin of QEMU's emulation of a process: it counts the instructions, and writes the count to a file
   whenever the process calls sched_get_priority_max, which nothing else calls. QEMU takes it as
   `-plugin count_instructions.so,to=FILE`. Debian packages no header of this interface, so what it
   uses is declared here. API is that of the QEMU that loads it: 1 before 9.0, 2 from then on. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SCHED_GET_PRIORITY_MAX 125 /* on 64-bit Arm */

#ifndef API
#define API 1
#endif

__attribute__((visibility("default"))) int qemu_plugin_version = API;

typedef uint64_t plugin_t;
struct qemu_info_t;
struct qemu_plugin_tb;
typedef void on_block_fn(plugin_t id, struct qemu_plugin_tb *block);
typedef void on_run_fn(unsigned processor, void *data);
typedef void on_call_fn(plugin_t id, unsigned processor, int64_t number, uint64_t, uint64_t,
                        uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_t id, on_block_fn *on_block);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *block, on_run_fn *on_run, int flags,
                                          void *data);
void qemu_plugin_register_vcpu_syscall_cb(plugin_t id, on_call_fn *on_call);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);

static uint64_t instructions;
static FILE *file;

static void on_run(unsigned processor, void *data) {
    (void)processor;
    instructions += (uintptr_t)data;
}

static void on_block(plugin_t id, struct qemu_plugin_tb *block) {
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_cb(block, on_run, 0,
                                         (void *)(uintptr_t)qemu_plugin_tb_n_insns(block));
}

static void on_call(plugin_t id, unsigned processor, int64_t number, uint64_t a, uint64_t b,
                    uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h) {
    (void)id, (void)processor, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
    if (number != SCHED_GET_PRIORITY_MAX) return;
    rewind(file);
    fprintf(file, "%020" PRIu64 "\n", instructions);
    fflush(file);
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_t id,
                                                               const struct qemu_info_t *info,
                                                               int n, char **options) {
    (void)info;
    if (n != 1 || strncmp(options[0], "to=", 3) != 0) return -1;
    file = fopen(options[0] + 3, "w");
    if (file == NULL) return -1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_block);
    qemu_plugin_register_vcpu_syscall_cb(id, on_call);
    return 0;
}
