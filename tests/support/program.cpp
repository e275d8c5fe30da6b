#include "support/program.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace {

using trainctl::steady_clock;

std::string content(int fd) {
  std::string text;
  std::array<char, 65536> buffer{};
  for (off_t at = 0;;) {
    const ssize_t count = ::pread(fd, buffer.data(), buffer.size(), at);
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
    at += count;
  }
}

[[noreturn]] void become(const std::vector<std::string>& arguments, const ProgramOptions& options,
                         int out, int err) {
  ::setpgid(0, 0);
  ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  if (!options.folder.empty() && ::chdir(options.folder.c_str()) != 0) ::_exit(127);
  ::unsetenv("NO_COLOR");
  ::unsetenv("COLUMNS");
  for (const auto& [name, value] : options.environment) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<std::string> words{TRAINCTL_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

}  // namespace

Program::Program(const std::vector<std::string>& arguments, ProgramOptions options)
    : options_(std::move(options)),
      out_(::memfd_create("out", MFD_CLOEXEC)),
      err_(::memfd_create("err", MFD_CLOEXEC)),
      started_(steady_clock().now()) {
  pid_ = ::fork();
  if (pid_ < 0 || out_ < 0 || err_ < 0) throw std::runtime_error("cannot start a child process");
  if (pid_ == 0) become(arguments, options_, out_, err_);
  ::setpgid(pid_, pid_);
}

Program::~Program() {
  if (pid_ > 0) {
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(out_);
  ::close(err_);
}

std::string Program::out() const { return content(out_); }
std::string Program::err() const { return content(err_); }

void Program::signal(int number) const { ::kill(pid_, number); }

ProgramRun Program::wait() {
  ProgramRun run;
  int status = 0;
  while (::waitpid(pid_, &status, WNOHANG) == 0) {
    if (!run.timed_out && steady_clock().now() - started_ > options_.timeout_s) {
      run.timed_out = true;
      ::kill(-pid_, SIGKILL);
    }
    ::usleep(1000);
  }
  pid_ = -1;
  run.wall_s = steady_clock().now() - started_;
  run.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  run.out = out();
  run.err = err();
  return run;
}

ProgramRun run_program(const std::vector<std::string>& arguments, ProgramOptions options) {
  return Program(arguments, std::move(options)).wait();
}
