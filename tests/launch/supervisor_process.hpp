#pragma once

#include "base/files.hpp"
#include "launch/job.hpp"
#include "support/catch.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

extern char** environ;

namespace trainctl::launch {

/// A supervisor of fake workers in a separate process, with the mark of a job.
class SupervisorProcess {
 public:
  SupervisorProcess(const Job& job, std::vector<std::string> words, int world) {
    ::setenv("TRAINCTL_TEST_MARK", job.folder.path().c_str(), 1);
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    words.insert(words.begin(), {TRAINCTL_FAKE_WORKER, "supervise", std::to_string(world),
                                 job.spec.log_folder.string()});
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    REQUIRE(::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    ::unsetenv("TRAINCTL_TEST_MARK");
    output_ = Fd(ends[0]);
  }
  ~SupervisorProcess() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }
  SupervisorProcess(const SupervisorProcess&) = delete;
  SupervisorProcess& operator=(const SupervisorProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }

  void wait_for_hellos(int world) const {
    std::string text;
    while (std::ranges::count(text, '\n') < world) {
      std::array<char, 256> buffer;
      const ssize_t count = ::read(output_.get(), buffer.data(), buffer.size());
      REQUIRE(count > 0);
      text.append(buffer.data(), static_cast<std::size_t>(count));
    }
  }

  /// Waits for the process and returns its status.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return status;
  }

 private:
  pid_t pid_ = 0;
  Fd output_;
};

}  // namespace trainctl::launch
