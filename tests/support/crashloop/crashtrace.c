/* crashtrace: run a command and its descendants under ptrace+seccomp; act at the N-th file-changing
 * system call (counted over ALL its processes, only for paths under -r ROOT).
 *
 *   crashtrace -r ROOT [-r ROOT2] [-n N] [-m MODE] [-e ERRNO] [-f FRAC%] [-S|-A] [-l LOG] [-D DATA] -- cmd args
 *   crashtrace -r ROOT ... -p PID      a process that waits; "attached" on stdout says that it may call
 *                                      install_filter() (this file, built as a shared library) and go on
 *
 * MODE  count    log every point, change nothing (default)
 *       record   as count, with return values and written bytes (for power-loss replay)
 *       kill     SIGKILL every traced process just before call N runs
 *       killone  SIGKILL only the process that makes call N; the others live on
 *       torn     let write N store only FRAC% of its bytes, then SIGKILL every process
 *       error    call N fails with ERRNO (-S: and so does every later space-taking call; -A: every later call)
 *       short    write N stores FRAC% of its bytes and returns that count (legal POSIX)
 * exit status: the command's own; 137 where we killed it; 125 usage/trace trouble.
 * Linux x86_64, kernel >= 4.8. Kills only processes it started (its own tracees).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#ifndef __x86_64__
#error "x86_64 only"
#endif

enum kind { WRITE, PWRITE, WRITEV, FD0, FD2, FTRUNC, PATH, AT, PATH2, AT2, SYML, SYMLAT, OPEN, OPENAT, CREAT, NONE, MMAP };
struct sc { long nr; const char *name; enum kind k; int space; } T[] = {
  {SYS_write,"write",WRITE,1},{SYS_pwrite64,"pwrite64",PWRITE,1},{SYS_writev,"writev",WRITEV,1},{SYS_pwritev,"pwritev",WRITEV,1},{SYS_pwritev2,"pwritev2",WRITEV,1},
  {SYS_sendfile,"sendfile",FD0,1},{SYS_copy_file_range,"copy_file_range",FD2,1},{SYS_fallocate,"fallocate",FD0,1},{SYS_ftruncate,"ftruncate",FTRUNC,0},
  {SYS_fsync,"fsync",FD0,2},{SYS_fdatasync,"fdatasync",FD0,2},{SYS_syncfs,"syncfs",FD0,2},{SYS_sync_file_range,"sync_file_range",FD0,2},{SYS_sync,"sync",NONE,2},
  {SYS_fchmod,"fchmod",FD0,0},{SYS_truncate,"truncate",PATH,0},{SYS_unlink,"unlink",PATH,0},{SYS_rmdir,"rmdir",PATH,0},{SYS_mkdir,"mkdir",PATH,1},{SYS_chmod,"chmod",PATH,0},
  {SYS_unlinkat,"unlinkat",AT,0},{SYS_mkdirat,"mkdirat",AT,1},{SYS_fchmodat,"fchmodat",AT,0},
  {SYS_rename,"rename",PATH2,1},{SYS_link,"link",PATH2,1},{SYS_renameat,"renameat",AT2,1},{SYS_renameat2,"renameat2",AT2,1},{SYS_linkat,"linkat",AT2,1},
  {SYS_symlink,"symlink",SYML,1},{SYS_symlinkat,"symlinkat",SYMLAT,1},{SYS_open,"open",OPEN,1},{SYS_openat,"openat",OPENAT,1},{SYS_creat,"creat",CREAT,1},
  {SYS_mmap,"mmap-shared-write",MMAP,0},
};
#define NT ((int)(sizeof T / sizeof *T))
static const char *roots[8]; static int nroots;
static long target = -1, count_ = 0; static const char *mode = "count"; static int err_no = ENOSPC, frac = 50, sticky;
static FILE *lg, *dat; static long dat_off = 0; static int killed_all = 0, tripped = 0, record = 0;

struct tr { pid_t pid; int used, want_exit, fresh; long idx; char path[PATH_MAX]; char line[3 * PATH_MAX * 2 + 512]; } *P; static int np = 0, cap = 0;
static struct tr *slot(pid_t p) {
  for (int i = 0; i < np; i++) if (P[i].used && P[i].pid == p) return &P[i];
  for (int i = 0; i < np; i++) if (!P[i].used) { P[i].pid = p; P[i].used = 1; P[i].want_exit = 0; P[i].fresh = 1; return &P[i]; }
  if (np == cap) { cap = cap ? cap * 2 : 64; P = realloc(P, cap * sizeof *P); if (!P) exit(125); }
  memset(&P[np], 0, sizeof *P); P[np].pid = p; P[np].used = P[np].fresh = 1; return &P[np++];
}
static void drop(pid_t p) { for (int i = 0; i < np; i++) if (P[i].used && P[i].pid == p) P[i].used = 0; }

static int rd(pid_t p, unsigned long a, void *b, size_t n) {
  struct iovec l = { b, n }, r = { (void *)a, n }; return process_vm_readv(p, &l, 1, &r, 1, 0) == (ssize_t)n;
}
static int rdstr(pid_t p, unsigned long a, char *o) {
  for (size_t i = 0; i < PATH_MAX - 1;) {
    size_t c = 4096 - (a + i) % 4096; if (c > PATH_MAX - 1 - i) c = PATH_MAX - 1 - i;
    struct iovec l = { o + i, c }, r = { (void *)(a + i), c }; ssize_t g = process_vm_readv(p, &l, 1, &r, 1, 0);
    if (g <= 0) { o[i] = 0; return 0; }
    if (memchr(o + i, 0, g)) return 1;
    i += g;
  } o[PATH_MAX - 1] = 0; return 1;
}
static int fdpath(pid_t p, int fd, char *o) {
  char l[64]; snprintf(l, sizeof l, fd == AT_FDCWD ? "/proc/%d/cwd" : "/proc/%d/fd/%d", p, fd);
  ssize_t n = readlink(l, o, PATH_MAX - 1); o[n < 0 ? 0 : n] = 0; return n > 0;
}
static void absolute(pid_t p, int dfd, const char *in, char *o) {
  char t[2 * PATH_MAX + 2], base[PATH_MAX], dir[2 * PATH_MAX + 2], rp[PATH_MAX];
  if (in[0] == '/') snprintf(t, sizeof t, "%s", in);
  else { if (!fdpath(p, dfd, base)) base[0] = 0; snprintf(t, sizeof t, "%s/%s", base, in); }
  size_t n = strlen(t); while (n > 1 && t[n - 1] == '/') t[--n] = 0;
  char *s = strrchr(t, '/'); if (!s) { snprintf(o, PATH_MAX, "%s", t); return; }
  snprintf(dir, sizeof dir, "%.*s", (int)(s - t), t); if (!dir[0]) strcpy(dir, "/");
  if (realpath(dir, rp)) { int k = snprintf(o, PATH_MAX, "%s%s", strcmp(rp, "/") ? rp : "", s); (void)k; } else { int k = snprintf(o, PATH_MAX, "%.*s", PATH_MAX - 1, t); (void)k; }
}
static int under(const char *p) {
  for (int i = 0; i < nroots; i++) { size_t n = strlen(roots[i]); if (!strncmp(p, roots[i], n) && (p[n] == 0 || p[n] == '/' || p[n] == ' ')) return 1; }
  return 0;
}
static int is_parent(const char *p) {
  for (int i = 0; i < nroots; i++) { const char *e = strrchr(roots[i], '/'); size_t n = e - roots[i]; if (strlen(p) == n && !strncmp(p, roots[i], n)) return 1; }
  return 0;
}
static void enc(char *o, size_t cap_, const char *s) {
  size_t j = 0; for (; *s && j + 4 < cap_; s++) { unsigned char c = *s; if (c < 33 || c > 126 || c == '%') j += sprintf(o + j, "%%%02X", c); else o[j++] = c; } o[j] = 0;
}
static void kill_all(void) { killed_all = 1; for (int i = 0; i < np; i++) if (P[i].used) kill(P[i].pid, SIGKILL); }

int install_filter(void) {
  int n = 0; struct sock_filter *f = calloc(2 * NT + 8, sizeof *f);
  f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
  f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
  f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (int i = 0; i < NT; i++) {
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)T[i].nr, 0, 1);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
  }
  f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog pr = { n, f };
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &pr);
}
static void child(char **av) {
  ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGSTOP);
  if (install_filter()) { perror("seccomp"); _exit(125); }
  execvp(av[0], av); perror(av[0]); _exit(127);
}

/* handle one seccomp stop. returns 1 when an exit stop is wanted */
static int on_call(pid_t pid, struct tr *t) {
  struct user_regs_struct r; if (ptrace(PTRACE_GETREGS, pid, 0, &r)) return 0;
  struct sc *s = 0; for (int i = 0; i < NT; i++) if (T[i].nr == (long)r.orig_rax) s = &T[i];
  if (!s) return 0;
  unsigned long a[6] = { r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9 };
  char p1[PATH_MAX] = "", p2[PATH_MAX] = "", tmp[PATH_MAX], tmp2[PATH_MAX]; long off = -1, len = -1, flags = 0; int fd = -1, isout = 0; struct stat st;
  switch (s->k) {
    case WRITE: case PWRITE: case WRITEV: case FD0: case FTRUNC: fd = (int)a[0]; fdpath(pid, fd, p1); if (s->k != WRITEV) len = s->k == FD0 ? -1 : s->k == FTRUNC ? (long)a[1] : (long)a[2]; if (s->k == PWRITE) off = a[3]; break;
    case FD2: fd = (int)a[2]; fdpath(pid, fd, p1); len = a[4]; break;
    case MMAP: if ((int)a[4] < 0 || !(a[2] & PROT_WRITE) || !(a[3] & MAP_SHARED)) return 0; fd = (int)a[4]; fdpath(pid, fd, p1); len = a[1]; break;
    case PATH: case CREAT: rdstr(pid, a[0], tmp); absolute(pid, AT_FDCWD, tmp, p1); if (s->nr == SYS_truncate) len = a[1]; else flags = a[1]; break;
    case AT: rdstr(pid, a[1], tmp); absolute(pid, (int)a[0], tmp, p1); flags = a[2]; break;
    case PATH2: rdstr(pid, a[0], tmp); rdstr(pid, a[1], tmp2); absolute(pid, AT_FDCWD, tmp, p1); absolute(pid, AT_FDCWD, tmp2, p2); break;
    case AT2: rdstr(pid, a[1], tmp); rdstr(pid, a[3], tmp2); absolute(pid, (int)a[0], tmp, p1); absolute(pid, (int)a[2], tmp2, p2); flags = a[4]; break;
    case SYML: rdstr(pid, a[0], p2); rdstr(pid, a[1], tmp); absolute(pid, AT_FDCWD, tmp, p1); break;
    case SYMLAT: rdstr(pid, a[0], p2); rdstr(pid, a[2], tmp); absolute(pid, (int)a[1], tmp, p1); break;
    case OPEN: flags = a[1]; rdstr(pid, a[0], tmp); absolute(pid, AT_FDCWD, tmp, p1); break;
    case OPENAT: flags = a[2]; rdstr(pid, a[1], tmp); absolute(pid, (int)a[0], tmp, p1); break;
    case NONE: break;
  }
  if (s->k == OPEN || s->k == OPENAT || s->k == CREAT) {
    if (s->k == CREAT) flags = O_CREAT | O_TRUNC | O_WRONLY;
    if ((flags & O_TMPFILE) == O_TMPFILE) { if (!under(p1)) return 0; goto match; }
    int ex = lstat(p1, &st) == 0;
    if (ex && (flags & O_CREAT) && (flags & O_EXCL)) return 0;
    if (ex && !(flags & O_TRUNC)) return 0;
    if (ex && (flags & O_TRUNC) && S_ISREG(st.st_mode) && st.st_size == 0) return 0;
    if (!ex && !(flags & O_CREAT)) return 0;
    if (ex && !S_ISREG(st.st_mode)) return 0;
  }
  if ((s->k == WRITE || s->k == WRITEV) && (fd == 1 || fd == 2) && !under(p1)) isout = fd;
  if (s->k == NONE) snprintf(p1, sizeof p1, "%s", nroots ? roots[0] : "/");
  else if (isout && record) { /* acknowledgement channel: logged in record mode, never counted */
    char *b = len > 0 && len < (1 << 24) ? malloc(len) : 0; long d = -1;
    if (b && rd(pid, a[1], b, len)) { d = dat_off; fwrite(b, 1, len, dat); dat_off += len; fflush(dat); }
    free(b); if (d >= 0) { fprintf(lg, "0\t%d\tout%d\t-\t-\t-1\t-1\t%ld\t0\t%ld\t%ld\n", pid, isout, len, d, len); fflush(lg); } return 0;
  }
  else if (record && s->space == 2 && is_parent(p1)) ;     /* fsync of the folder that holds ROOT: power-loss replay needs it */
  else if (!under(p1) && !((s->k == PATH2 || s->k == AT2) && under(p2))) return 0;
  if (s->k == MMAP) { if (lg) { enc(tmp, sizeof tmp, p1); fprintf(lg, "0\t%d\t%s\t%s\t-\t%d\t-1\t%ld\t0\t-1\t0\n", pid, s->name, tmp, fd, len); fflush(lg); } return 0; }
match:
  count_++;
  if (fd >= 0 && off < 0 && s->k == WRITE) { char fi[64], b[512]; snprintf(fi, sizeof fi, "/proc/%d/fdinfo/%d", pid, fd); FILE *q = fopen(fi, "r");
    if (q) { unsigned fl = 0; while (fgets(b, sizeof b, q)) { sscanf(b, "pos: %ld", &off); sscanf(b, "flags: %o", &fl); } fclose(q); if (fl & O_APPEND) off = stat(p1, &st) == 0 ? st.st_size : off; } }
  if (lg) {
    long d = -1;
    if (record && (s->k == WRITE || s->k == PWRITE) && len > 0 && len < (1 << 26)) { char *b = malloc(len); if (b && rd(pid, a[1], b, len)) { d = dat_off; fwrite(b, 1, len, dat); dat_off += len; fflush(dat); } free(b); }
    if (record && s->k == WRITEV) { long tot = 0, d0 = dat_off; for (unsigned long i = 0; i < a[2] && i < 1024; i++) { struct iovec v; if (!rd(pid, a[1] + i * sizeof v, &v, sizeof v) || v.iov_len > (1 << 26)) break; char *b = malloc(v.iov_len + 1); if (b && rd(pid, (unsigned long)v.iov_base, b, v.iov_len)) { fwrite(b, 1, v.iov_len, dat); dat_off += v.iov_len; tot += v.iov_len; } free(b); } d = d0; len = tot; fflush(dat);
      if (s->nr != SYS_writev) off = a[3]; else { char fi[64], b[512]; snprintf(fi, sizeof fi, "/proc/%d/fdinfo/%d", pid, fd); FILE *q = fopen(fi, "r"); if (q) { unsigned fl = 0; while (fgets(b, sizeof b, q)) { sscanf(b, "pos: %ld", &off); sscanf(b, "flags: %o", &fl); } fclose(q); if (fl & O_APPEND) off = stat(p1, &st) == 0 ? st.st_size : off; } } }
    char e1[3 * PATH_MAX], e2[3 * PATH_MAX]; enc(e1, sizeof e1, p1); enc(e2, sizeof e2, p2[0] ? p2 : "-");
    snprintf(t->line, sizeof t->line, "%ld\t%d\t%s\t%s\t%s\t%d\t%ld\t%ld\t%ld\t%ld", count_, pid, s->name, e1, e2, fd, off, len, flags, d);
    if (!record) { fprintf(lg, "%s\t0\n", t->line); fflush(lg); }
  }
  int hit = count_ == target, iswr = s->k == WRITE || s->k == PWRITE;
  if (hit && !strcmp(mode, "kill")) { kill_all(); return 0; }
  if (hit && !strcmp(mode, "killone")) { kill(pid, SIGKILL); return 0; }
  if (hit && (!strcmp(mode, "torn") || !strcmp(mode, "short"))) {
    if (iswr && a[2] > 1) { unsigned long k = a[2] * frac / 100; if (k == 0) k = 1; if (k >= a[2]) k = a[2] - 1; r.rdx = k; ptrace(PTRACE_SETREGS, pid, 0, &r); if (mode[0] == 't') { t->want_exit = 2; return 1; } return 0; }
    if (mode[0] == 't') { kill_all(); return 0; }
  }
  if (!strcmp(mode, "error") && (hit || (tripped && sticky && (s->space || sticky > 1)))) { tripped = 1; r.orig_rax = -1; r.rax = -err_no; ptrace(PTRACE_SETREGS, pid, 0, &r); return 0; }
  if (record) { t->want_exit = 1; t->idx = count_; if (s->nr == SYS_sendfile || s->nr == SYS_copy_file_range) { t->want_exit = 3; snprintf(t->path, sizeof t->path, "%s", p1); } return 1; }
  return 0;
}

int main(int c, char **v) {
  int o; const char *lp = 0, *dp = 0; pid_t kid = 0;
  while ((o = getopt(c, v, "+r:n:m:e:f:l:D:p:SA")) != -1) switch (o) {
    case 'r': { char *p = realpath(optarg, 0); if (nroots < 8) roots[nroots++] = p ? p : optarg; } break;
    case 'n': target = atol(optarg); break; case 'm': mode = optarg; break; case 'e': err_no = atoi(optarg); break;
    case 'f': frac = atoi(optarg); break; case 'l': lp = optarg; break; case 'D': dp = optarg; break; case 'S': sticky = 1; break; case 'A': sticky = 2; break; case 'p': kid = atoi(optarg); break; default: return 125; }
  if (optind >= c && !kid) { fprintf(stderr, "crashtrace: no command\n"); return 125; }
  record = !strcmp(mode, "record");
  if (lp && !(lg = fopen(lp, "w"))) { perror(lp); return 125; }
  if (record && (!dp || !(dat = fopen(dp, "wb")))) { fprintf(stderr, "record needs -D\n"); return 125; }
  const long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD;
  int st, rc = 125;
  if (kid) {
    if (ptrace(PTRACE_SEIZE, kid, 0, options)) { perror("ptrace"); return 125; }
    slot(kid)->fresh = 0; puts("attached"); fflush(stdout);
  } else {
    kid = fork(); if (kid == 0) child(v + optind);
    waitpid(kid, &st, 0); slot(kid);
    if (ptrace(PTRACE_SETOPTIONS, kid, 0, options)) { perror("ptrace"); return 125; }
    ptrace(PTRACE_CONT, kid, 0, 0);
  }
  for (;;) {
    pid_t p = waitpid(-1, &st, __WALL); if (p < 0) { if (errno == EINTR) continue; break; }
    struct tr *t = slot(p);
    if (WIFEXITED(st) || WIFSIGNALED(st)) { if (p == kid) rc = WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st); drop(p); continue; }
    if (!WIFSTOPPED(st)) continue;
    int sig = WSTOPSIG(st), ev = st >> 16, want = 0, deliver = 0;
    if (killed_all) kill(p, SIGKILL);
    if (ev == PTRACE_EVENT_SECCOMP) want = killed_all ? 0 : on_call(p, t);
    else if (ev) ;                                            /* fork/exec events */
    else if (sig == (SIGTRAP | 0x80)) {                       /* syscall exit (asked for) */
      if (t->want_exit == 2) kill_all();
      else if (t->want_exit == 1 || t->want_exit == 3) { struct user_regs_struct r; if (!ptrace(PTRACE_GETREGS, p, 0, &r)) {
        if (t->want_exit == 3) { /* data moved inside the kernel: log the whole file as it now is */
          char b[65536]; long d = dat_off; ssize_t g; int q = open(t->path, O_RDONLY | O_CLOEXEC);
          if (q >= 0) { while ((g = read(q, b, sizeof b)) > 0) { fwrite(b, 1, g, dat); dat_off += g; } close(q); fflush(dat); }
          char e[3 * PATH_MAX]; enc(e, sizeof e, t->path); fprintf(lg, "%ld\t%d\tcontent\t%s\t-\t-1\t0\t%ld\t0\t%ld\t%ld\n", t->idx, p, e, dat_off - d, d, (long)r.rax);
        } else fprintf(lg, "%s\t%ld\n", t->line, (long)r.rax);
        fflush(lg); } }
      t->want_exit = 0;
    } else if (sig == SIGSTOP && t->fresh && p != kid) deliver = 0; /* a new tracee's first stop */
    else deliver = sig == SIGTRAP ? 0 : sig;
    t->fresh = 0;
    ptrace(want ? PTRACE_SYSCALL : PTRACE_CONT, p, 0, deliver);
  }
  if (lg) { fprintf(lg, "#total\t%ld\n", count_); fclose(lg); }
  return killed_all ? 137 : rc;
}
