#include "study/sweep/job_process.hpp"

#include "base/strings.hpp"
#include "launch/process/child.hpp"
#include "study/run/run_inputs.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <string_view>

namespace trainctl::study {
namespace {

constexpr std::string_view kVisible = "CUDA_VISIBLE_DEVICES=";

std::vector<std::string> environment_of(const JobCommand& command) {
  const Share& share = command.share;
  std::vector<std::string> variables;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const bool is_ours = text.starts_with(kSourceFolder) ||  // of a sweep that this one runs in
                         (!share.gpus.empty() && text.starts_with(kVisible));
    if (!is_ours) variables.emplace_back(text);
  }
  if (!share.gpus.empty()) variables.push_back(std::string(kVisible) + join(share.gpus, ","));
  if (!command.experiment.empty())
    variables.push_back(std::string(kSourceFolder) + "=" +
                        fs::absolute(command.experiment).parent_path().string());
  return variables;
}

pid_t started(const JobCommand& command, const launch::SignalGuard& guard) {
  launch::ChildPlan plan;
  plan.argv = command.argv;
  plan.environment = environment_of(command);
  plan.log_path = command.log.string();
  plan.mask = guard.child_mask();
  plan.cores = command.share.cores;
  return launch::start_child(plan);
}

}  // namespace

ChildProcess::ChildProcess(const JobCommand& command, const launch::SignalGuard& guard)
    : pid_(started(command, guard)) {}

ChildProcess::~ChildProcess() {
  if (exit_code_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::optional<int> ChildProcess::ended() {
  if (exit_code_) return exit_code_;
  int status = 0;
  const pid_t found = ::waitpid(pid_, &status, WNOHANG);
  if (found == 0 || (found < 0 && errno == EINTR)) return std::nullopt;
  constexpr int kSignalled = 128;
  constexpr int kLost = 1;  // somebody else has reaped it
  exit_code_ = found < 0             ? kLost
               : WIFSIGNALED(status) ? kSignalled + WTERMSIG(status)
                                     : WEXITSTATUS(status);
  return exit_code_;
}

void ChildProcess::signal(int number) {
  if (!exit_code_) ::kill(pid_, number);
}

std::vector<int> wait_for_signals(launch::SignalGuard& guard, double seconds) {
  constexpr double kMostS = 3600;
  pollfd wait{guard.fd(), POLLIN, 0};
  const double milliseconds = std::ceil(std::clamp(seconds, 0.0, kMostS) * 1000);
  ::poll(&wait, 1, static_cast<int>(milliseconds));
  return guard.take();
}

}  // namespace trainctl::study
