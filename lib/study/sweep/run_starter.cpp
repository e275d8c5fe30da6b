#include "study/sweep/run_starter.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/machine/machine.hpp"
#include "base/machine/numa.hpp"
#include "base/strings.hpp"
#include "study/sweep/jobs.hpp"
#include "study/workers/devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

namespace trainctl::study {
namespace {

/// As CUDA_VISIBLE_DEVICES names them; none where no run could use one.
std::vector<std::string> gpus_for(const PlannedSweep& sweep) {
  const bool wants_any =
      std::ranges::any_of(sweep.devices, [](const auto& of_hash) { return of_hash.second != 0; });
  if (!wants_any || read_machine().gpus.empty()) return {};
  const int count = launch::probe_gpus().count;
  const char* listed = std::getenv("CUDA_VISIBLE_DEVICES");
  std::vector<std::string> names =
      listed == nullptr || *listed == '\0' ? std::vector<std::string>() : split(listed, ',');
  const bool is_complete = std::ssize(names) >= count;
  if (is_complete) {
    names.resize(static_cast<std::size_t>(count));
    return names;
  }
  names.clear();
  for (int i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

}  // namespace

RunStarter::RunStarter(const SweepPlace& place, int jobs, const launch::SignalGuard& guard)
    : RunStarter(place, jobs, guard,
                 jobs > 1 ? gpus_for(place.sweep) : std::vector<std::string>()) {}

RunStarter::RunStarter(const SweepPlace& place, int jobs, const launch::SignalGuard& guard,
                       const std::vector<std::string>& gpus)
    : place_(place),
      jobs_(jobs),
      guard_(guard),
      gpus_(static_cast<int>(gpus.size())),
      slots_(jobs, by_physical_core(allowed_cores()), cpu_quota(), gpus) {}

std::vector<std::string> RunStarter::command(const SweepJob& job) const {
  std::vector<std::string> words{place_.invocation.executable.string(), "run",
                                 config_of(run_of(job).config).string(),
                                 fmt::format("seed={}", job.seed)};
  for (const char* word : {"--resume", "auto", "--quiet", "--progress", "none", "--color", "never"})
    words.emplace_back(word);
  words.insert(words.end(), {"--run-dir", job.run_dir.string()});
  if (job.until_epoch)
    words.insert(words.end(), {"--until-epoch", std::to_string(*job.until_epoch)});
  return words;
}

/// The experiment as it was when the sweep was called: a file that is changed meanwhile changes no
/// run.
fs::path RunStarter::config_of(const std::string& hash) const {
  const fs::path file = place_.folder / "configs" / (hash + ".yaml");
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) write_atomically(file, place_.sweep.configs.at(hash));
  return file;
}

const PlannedRun& RunStarter::run_of(const SweepJob& job) const {
  const auto run = std::ranges::find_if(place_.sweep.runs, [&](const PlannedRun& each) {
    return each.seed == job.seed && each.overrides == job.overrides;
  });
  ASSERT(run != place_.sweep.runs.end());
  return *run;
}

/// With `auto` an equal part of them.
int RunStarter::gpus_of(const SweepJob& job) const {
  if (gpus_ == 0) return 0;
  const int wanted = place_.sweep.devices.at(run_of(job).config);
  return wanted >= 0 ? wanted : std::max(1, gpus_ / jobs_);
}

std::unique_ptr<JobProcess> RunStarter::start(const SweepJob& job) {
  const Share share = slots_.take(gpus_of(job));
  shares_[job.number] = share;
  const fs::path log = place_.folder / "logs" / (run_id(job.number) + ".log");
  try {
    return std::make_unique<ChildProcess>(
        JobCommand{command(job), log, share, place_.invocation.config_file}, guard_);
  } catch (const Error&) {
    release(job.number);
    throw;
  }
}

void RunStarter::release(std::int64_t number) {
  const auto share = shares_.find(number);
  if (share == shares_.end()) return;
  slots_.give_back(share->second);
  shares_.erase(share);
}

}  // namespace trainctl::study
