#pragma once

#include "base/clock.hpp"
#include "report/text/verify_resume.hpp"
#include "study/run/run.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainctl::study {

struct VerifyResume {
  int kills = 5;
  std::uint64_t seed = 0;
  fs::path scratch;  // gets a run folder for the uninterrupted run and for each kill
  std::function<void(const std::string& line)> say;  // as it goes on
};

/// What makes any training run one that can be compared: every step told, its full state saved,
/// nothing that depends on time or starts it again.
std::vector<std::string> comparable_run();

/// Overrides that pin what a run measured at its start to choose for itself, and what another run
/// might choose otherwise: threads and the memory format of images.
std::vector<std::string> choices_of(const events::RunStarted& began);

/// Runs `request` once; then kills runs of it with SIGKILL at drawn steps, one rank or all in turn,
/// resumes each to its end and compares it with the first. `request` has the overrides of
/// comparable_run(). What is identical is removed from the scratch folder at once. Throws Error
/// where the uninterrupted run does not end well, or a signal ends one of them.
report::ResumeCheck verify_resume(const RunRequest& request, const VerifyResume& wish,
                                  const Clock& clock);

}  // namespace trainctl::study
