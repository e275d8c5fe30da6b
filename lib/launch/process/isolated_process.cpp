#include "launch/process/isolated_process.hpp"

#include "base/files.hpp"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>

namespace trainctl::launch {
namespace {

constexpr int kSuccess = 0;

// The child's message is its ErrorKind (0 on success) as one int, followed by the text.
std::string run_body(const std::function<std::string()>& body) {
  int kind = kSuccess;
  std::string text;
  try {
    text = body();
  } catch (const Error& error) {
    kind = error.exit_code();
    text = error.what();
  } catch (const std::exception& error) {
    kind = static_cast<int>(ErrorKind::unexpected);
    text = error.what();
  }
  std::string message(sizeof kind, '\0');
  std::memcpy(message.data(), &kind, sizeof kind);
  return message + text;
}

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t kArchitecture = 0;  // system call numbers differ on other machines
#endif

constexpr std::array kAllowed{
    SYS_read,           SYS_write,       SYS_writev,         SYS_pread64,
    SYS_lseek,          SYS_close,       SYS_fstat,          SYS_mmap,
    SYS_munmap,         SYS_mremap,      SYS_mprotect,       SYS_brk,
    SYS_madvise,        SYS_futex,       SYS_rt_sigreturn,   SYS_rt_sigaction,
    SYS_rt_sigprocmask, SYS_sigaltstack, SYS_getpid,         SYS_gettid,
    SYS_tgkill,         SYS_exit,        SYS_exit_group,     SYS_clock_gettime,
    SYS_getrandom,      SYS_sched_yield, SYS_restart_syscall};

sock_filter statement(int code, std::uint32_t value) {
  return {static_cast<std::uint16_t>(code), 0, 0, value};
}

/// Continues with the next statement if the values are equal, and skips it otherwise.
sock_filter skip_unless_equal(std::uint32_t value) {
  return {static_cast<std::uint16_t>(BPF_JMP | BPF_JEQ | BPF_K), 0, 1, value};
}

void filter_system_calls() {
  if (kArchitecture == 0) return;
  std::vector<sock_filter> program{
      statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      {static_cast<std::uint16_t>(BPF_JMP | BPF_JEQ | BPF_K), 1, 0, kArchitecture},
      statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const long number : kAllowed) {
    program.push_back(skip_unless_equal(static_cast<std::uint32_t>(number)));
    program.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  program.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return;
  (void)::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

std::uint64_t mapped_bytes() {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/statm", "re"),
                                                             &std::fclose);
  unsigned long pages = 0;
  if (!file || std::fscanf(file.get(), "%lu", &pages) != 1) return 0;
  return std::uint64_t{pages} * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

void set_limit(__rlimit_resource what, const rlimit& most) {
  (void)::setrlimit(what, &most);  // an existing lower limit also serves the purpose
}

void close_descriptors_except(std::vector<int> kept) {
  kept.push_back(STDERR_FILENO);
  std::ranges::sort(kept);
  unsigned first = 0;
  for (const int fd : kept) {
    const auto number = static_cast<unsigned>(fd);
    if (number > first) (void)::close_range(first, number - 1, 0);
    first = number + 1;
  }
  (void)::close_range(first, ~0U, 0);
}

void enter_sandbox(const Sandbox& sandbox) {
  const std::uint64_t mapped = mapped_bytes();
  close_descriptors_except(sandbox.descriptors);
  set_limit(RLIMIT_CORE, {0, 0});
  set_limit(RLIMIT_FSIZE, {sandbox.file_bytes, sandbox.file_bytes});
  set_limit(RLIMIT_CPU, {sandbox.cpu_s, sandbox.cpu_s + 1});  // SIGXCPU first, then SIGKILL
  const std::uint64_t memory = mapped + sandbox.memory_bytes;
  if (mapped > 0) set_limit(RLIMIT_AS, {memory, memory});
  filter_system_calls();
}

[[noreturn]] void run_child(const std::function<std::string()>& body,
                            const std::optional<Sandbox>& sandbox, int fd, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // the parent died before prctl()
  try {
    if (sandbox) {
      Sandbox restrictions = *sandbox;
      restrictions.descriptors.push_back(fd);
      enter_sandbox(restrictions);
    }
    write_all(fd, run_body(body), "the pipe to the parent");
  } catch (const std::exception&) {
    ::_exit(1);
  }
  ::_exit(0);
}

Error exit_error(const std::string& process_name, int status) {
  if (!WIFSIGNALED(status))
    return {ErrorKind::unexpected,
            fmt::format("{} exited with status {} without a result", process_name, status)};
  const int signal = WTERMSIG(status);
  if (signal == SIGKILL)
    return {ErrorKind::resource,
            fmt::format("{} was killed, probably out of memory", process_name)};
  return {ErrorKind::unexpected, fmt::format("{} was killed by signal {} ({})", process_name,
                                             signal, ::strsignal(signal))};
}

std::string parse_reply(const std::string& message, int status, const std::string& process_name) {
  int kind = kSuccess;
  if (message.size() < sizeof kind) throw exit_error(process_name, status);
  std::memcpy(&kind, message.data(), sizeof kind);
  std::string text = message.substr(sizeof kind);
  if (kind != kSuccess) throw Error(static_cast<ErrorKind>(kind), std::move(text));
  return text;
}

}  // namespace

std::string read_to_end(int fd) {
  std::string text;
  std::array<char, 65536> buffer{};
  while (true) {
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

IsolatedResult run_isolated(const std::function<std::string()>& body, const Isolation& isolation) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw ForkError(ErrorKind::resource,
                    fmt::format("cannot create a pipe: {}", std::strerror(errno)));
  const Fd reading(ends[0]);
  Fd writing(ends[1]);
  const pid_t parent = ::getpid();
  std::fflush(nullptr);  // so that the child does not write buffered output again
  const pid_t pid = ::fork();
  if (pid < 0)
    throw ForkError(
        ErrorKind::resource,
        fmt::format("cannot start a process: {}\nhint: close other processes or raise `ulimit -u`",
                    std::strerror(errno)));
  if (pid == 0) run_child(body, isolation.sandbox, writing.get(), parent);
  writing.reset();
  const std::string message = read_to_end(reading.get());
  int status = 0;
  rusage usage{};
  while (::wait4(pid, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  return {parse_reply(message, status, isolation.process_name),
          static_cast<std::uint64_t>(usage.ru_maxrss) * 1024};
}

}  // namespace trainctl::launch
