#pragma once

#include "report/text/format.hpp"

#include <array>
#include <cstdint>

// Compares a run that was killed and resumed with the same run without interruption.

namespace trainctl::report {

/// unknown: one of the two runs did not record it.
enum class Sameness { identical, different, unknown };
constexpr std::array<const char*, 3> enum_names(Sameness) {
  return {"identical", "different", "unknown"};
}

/// The comparison of one kind of values in two runs.
struct StateComparison {
  Sameness sameness = Sameness::unknown;
  std::string first;  // the first difference, or the value that was not recorded
};

/// One killed run.
struct Kill {
  int number = 0;            // counted from 1
  std::int64_t step = 0;     // planned step of the kill
  std::int64_t died_at = 0;  // step at which it was killed
  std::int64_t epoch = 0;    // epoch of the kill, from 0
  std::string phase;
  std::string killed;        // "rank 0", "all ranks"
  std::string resumed_from;  // checkpoint; empty: there was none yet
  std::string failure;       // why it could not be killed or resumed to its end
  bool ran_to_its_end = false;
  StateComparison weights, optimizer, losses, batches;
};

/// The result of verify-resume: the uninterrupted run and the killed ones.
struct ResumeCheck {
  std::uint64_t seed = 0;
  std::int64_t steps = 0;  // of the uninterrupted run
  std::int64_t epochs = 0;
  double wall_s = 0;
  int world_size = 1;
  std::int64_t every_n_steps = 0;  // checkpoint interval
  std::string parameter_digest;
  std::string data_digest;
  std::vector<Kill> kills;
  std::string folder;  // remaining folder for inspection; empty: none
};

/// Returns whether the run was resumed to its end with the weights, optimizer state, losses and
/// batches of the uninterrupted run.
bool is_identical(const Kill& kill);
/// Returns 0; 3 if something differs or a run could not be resumed to its end; 10 if no run could
/// be resumed from a checkpoint.
int exit_code_of(const ResumeCheck& check);

/// Returns a table with one row per kill, the first differences below it, and "10 of 10 identical".
std::string verify_resume_text(const ResumeCheck& check, const Style& style);
/// Returns a document with schema "trainctl.verify_resume/2".
Json verify_resume_json(const ResumeCheck& check);

}  // namespace trainctl::report
