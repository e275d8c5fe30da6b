#include "study/run/restarts.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"
#include "log/log.hpp"

#include <utility>

namespace trainctl::study {
namespace {

std::optional<std::int64_t> step_of(const Origin& origin) {
  return origin.checkpoint.empty() ? std::nullopt : std::optional(origin.manifest.global_step);
}

}  // namespace

bool RestartPolicy::may_help(int exit_code) {
  return exit_code == static_cast<int>(ErrorKind::rank_failed) ||
         exit_code == static_cast<int>(ErrorKind::hang);
}

RestartPolicy::Answer RestartPolicy::after(int exit_code, std::optional<std::int64_t> newest) {
  if (!may_help(exit_code)) return Answer::over;
  if (newest > newest_) {
    newest_ = newest;
    idle_ = 0;
  } else if (made_ > 0) {
    ++idle_;
  }
  if (idle_ >= kMostIdle) return Answer::no_progress;
  if (made_ >= most_) return Answer::over;
  ++made_;
  return Answer::again;
}

Restarts::Restarts(int most, fs::path run_dir, const Origin& origin)
    : run_dir_(std::move(run_dir)), policy_(most, step_of(origin)) {}

std::optional<Origin> Restarts::choose() const {
  try {
    return choose_checkpoint(run_dir_, {.from = ResumeFrom::automatic});
  } catch (const Error& error) {
    log::get().warn("there is no restart: {}", error.what());
    return std::nullopt;
  }
}

void Restarts::judge(report::Ending& ending, const Origin* again) {
  next_.reset();
  ending.restarts = policy_.made();
  if (policy_.most() == 0 || !RestartPolicy::may_help(ending.exit_code)) return;
  std::optional<Origin> next = again != nullptr ? std::optional(*again) : choose();
  if (!next) return;
  const auto answer = policy_.after(ending.exit_code, step_of(*next));
  if (answer == RestartPolicy::Answer::no_progress) {
    ending.message = fmt::format("{} restarts in a row have brought no newer checkpoint; {}",
                                 RestartPolicy::kMostIdle, ending.message);
    ending.exit_code = static_cast<int>(ErrorKind::no_progress);
  } else if (answer == RestartPolicy::Answer::again) {
    notice_ = fmt::format(
        "{}; restart {} of {} goes on from {}", ending.message, policy_.made(), policy_.most(),
        next->checkpoint.empty() ? "the beginning" : printable(next->checkpoint.string()));
    next_ = std::move(next);
  }
}

}  // namespace trainctl::study
