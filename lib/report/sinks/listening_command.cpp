#include "report/sinks/listening_command.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

namespace trainctl::report {
namespace {

/// A command that has gone would kill us by SIGPIPE. It is blocked for this thread alone and taken
/// back, so that nothing else of the process changes.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigset_t pending{};
    ::sigemptyset(&set_);
    ::sigaddset(&set_, SIGPIPE);
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~WithoutSigpipe() {
    const timespec none{};
    if (!was_pending_) ::sigtimedwait(&set_, nullptr, &none);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t set_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

/// The child has no signal of ours blocked or ignored, and a group that Ctrl-C does not reach: it
/// is to hear of the end.
class SpawnAttributes {
 public:
  SpawnAttributes() {
    sigset_t none{};
    sigset_t all{};
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~SpawnAttributes() { ::posix_spawnattr_destroy(&attributes_); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  [[nodiscard]] const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

std::string told(int status) {
  if (WIFEXITED(status)) return fmt::format("exit code {}", WEXITSTATUS(status));
  const char* name = ::sigabbrev_np(WTERMSIG(status));
  return name == nullptr ? fmt::format("signal {}", WTERMSIG(status)) : fmt::format("SIG{}", name);
}

struct Ends {
  Fd reader;
  Fd writer;
};

Ends make_pipe() {
  std::array<int, 2> ends{};
  ENSURE(resource, ::pipe2(ends.data(), O_CLOEXEC) == 0, "cannot make a pipe: {}",
         std::strerror(errno));
  Ends made{Fd(ends[0]), Fd(ends[1])};
  ::fcntl(made.writer.get(), F_SETFL, O_NONBLOCK);
  return made;
}

}  // namespace

ListeningCommand::ListeningCommand(const std::vector<std::string>& command,
                                   const std::filesystem::path& log) {
  ASSERT(!command.empty());
  Ends ends = make_pipe();
  const Fd output(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  ENSURE(resource, output.valid(), "cannot write {}: {}", log.string(), std::strerror(errno));
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends.reader.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output.get(), STDERR_FILENO);
  std::vector<std::string> words = command;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const SpawnAttributes attributes;
  const int failure =
      ::posix_spawnp(&pid_, argv[0], &actions, attributes.get(), argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) pid_ = -1;
  ENSURE(config, failure == 0, "the logger exec cannot start '{}': {}", printable(command.front()),
         std::strerror(failure));
  input_ = std::move(ends.writer);
}

ListeningCommand::~ListeningCommand() {
  if (pid_ < 0 || ending()) return;
  signal_group(SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

ListeningCommand::Taken ListeningCommand::take(std::string& bytes) {
  if (!input_.valid()) return Taken::broken;
  const WithoutSigpipe guard;
  while (!bytes.empty()) {
    const ssize_t count = ::write(input_.get(), bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.erase(0, static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      return Taken::some;
    } else if (errno != EINTR) {
      input_.reset();
      return Taken::broken;
    }
  }
  return Taken::all;
}

std::optional<std::string> ListeningCommand::ending() {
  if (ending_) return ending_;
  int status = 0;
  const pid_t reaped = ::waitpid(pid_, &status, WNOHANG);
  if (reaped == pid_) {
    ended_well_ = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    ending_ = told(status);
  } else if (reaped < 0 && errno == ECHILD) {
    ending_ = "an end that was not seen";
  }
  return ending_;
}

void ListeningCommand::signal_group(int signal) const {
  if (pid_ > 0) ::kill(-pid_, signal);
}

}  // namespace trainctl::report
