#include "launch/process/isolated_process.hpp"

#include "base/error.hpp"
#include "base/files.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace trainctl::launch {
namespace {

constexpr int kDone = 0;

// The message of the child: its kind (0: done) as one int, then the text.
std::string answer(const std::function<std::string()>& body) {
  int kind = kDone;
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

[[noreturn]] void be_child(const std::function<std::string()>& body,
                           const std::optional<Sandbox>& sandbox, int fd, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it died before the line above
  try {
    if (sandbox) {
      Sandbox own = *sandbox;
      own.descriptors.push_back(fd);
      enter_sandbox(own);
    }
    write_all(fd, answer(body), "the pipe to the parent");
  } catch (const std::exception&) {
    ::_exit(1);
  }
  ::_exit(0);
}

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

Error ended_early(const std::string& who, int status) {
  if (!WIFSIGNALED(status))
    return {ErrorKind::unexpected,
            fmt::format("{} ended with status {} and no result", who, status)};
  const int signal = WTERMSIG(status);
  if (signal == SIGKILL)
    return {ErrorKind::resource, fmt::format("{} was killed; most likely the memory ran out", who)};
  return {ErrorKind::unexpected,
          fmt::format("{} was ended by signal {} ({})", who, signal, ::strsignal(signal))};
}

std::string content_of(const std::string& message, int status, const std::string& who) {
  int kind = kDone;
  if (message.size() < sizeof kind) throw ended_early(who, status);
  std::memcpy(&kind, message.data(), sizeof kind);
  std::string text = message.substr(sizeof kind);
  if (kind != kDone) throw Error(static_cast<ErrorKind>(kind), std::move(text));
  return text;
}

}  // namespace

IsolatedResult run_isolated(const std::function<std::string()>& body, const Isolation& how) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw NotStarted(ErrorKind::resource,
                     fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  const Fd reading(ends[0]);
  Fd writing(ends[1]);
  const pid_t parent = ::getpid();
  std::fflush(nullptr);  // what waits to be written is ours, not the child's to write again
  const pid_t pid = ::fork();
  if (pid < 0)
    throw NotStarted(ErrorKind::resource,
                     fmt::format("cannot start a process: {}; close others or raise `ulimit -u`",
                                 std::strerror(errno)));
  if (pid == 0) be_child(body, how.sandbox, writing.get(), parent);
  writing.reset();
  const std::string message = read_to_end(reading.get());
  int status = 0;
  rusage usage{};
  while (::wait4(pid, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  return {content_of(message, status, how.who), static_cast<std::uint64_t>(usage.ru_maxrss) * 1024};
}

}  // namespace trainctl::launch
