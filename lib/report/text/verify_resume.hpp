#pragma once

#include "base/json.hpp"
#include "report/text/format.hpp"

#include <array>
#include <cstdint>

// A run that was killed and resumed beside the same run that was not: tables and verdicts of
// records.

namespace trainctl::report {

/// untold: one of the two runs did not tell it.
enum class Sameness { identical, different, untold };
constexpr std::array<const char*, 3> enum_names(Sameness) {
  return {"identical", "different", "not told"};
}

struct Agreement {
  Sameness sameness = Sameness::untold;
  std::string first;  // the first difference, or what was not told
};

/// One run that was killed.
struct Kill {
  int number = 0;            // from 1
  std::int64_t step = 0;     // at which it was to be killed
  std::int64_t died_at = 0;  // where it was
  std::int64_t epoch = 0;    // then, from 0
  std::string phase;
  std::string killed;        // "rank 0", "all ranks"
  std::string resumed_from;  // the checkpoint; empty: there was none yet
  std::string failure;       // why it could not be killed or resumed to its end; else empty
  bool ran_to_its_end = false;
  Agreement weights, optimizer, losses, batches;
};

struct ResumeCheck {
  std::uint64_t seed = 0;
  std::int64_t steps = 0;  // of the uninterrupted run
  std::int64_t epochs = 0;
  double wall_s = 0;
  int world_size = 1;
  std::int64_t every_n_steps = 0;  // of the checkpoints
  std::string parameter_digest;
  std::string data_digest;
  std::vector<Kill> kills;
  std::string folder;  // what is left to look into; empty: nothing
};

/// Resumed to its end, with the weights, the optimizer's state and the losses of the other run, and
/// no other batches.
bool is_identical(const Kill& kill);
/// 0; 3 where something differs or a run could not be resumed to its end; 10 where none could be
/// resumed from a checkpoint.
int exit_code_of(const ResumeCheck& check);

/// A row a kill, the first differences below, and "10 of 10 identical".
std::string verify_resume_text(const ResumeCheck& check, const Style& style);
/// Schema trainctl.verify_resume/1.
Json verify_resume_json(const ResumeCheck& check);

}  // namespace trainctl::report
