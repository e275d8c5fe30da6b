#pragma once

#include "study/tune/paired_trials.hpp"

namespace trainctl::study {

/// Searches for changes that make the experiment faster.
///
/// The verdict of a first run tells what to try. Each change gets a first trial of two pairs of
/// runs; one that is faster by far is decided at once, and of the others the one that may gain the
/// most gets more pairs, twice as many each time, until rule_on() decides it. An accepted change is
/// part of what further ones are compared with, and its verdict tells what to try next. The search
/// ends where all that may help is decided, or with the budget; then it tells what is open and how
/// long that would take. At the end the whole patch is proved against the original in separate
/// runs; what does not hold is dropped.
///
/// No first trial begins that the budget does not leave the time for, with the proof of an accepted
/// change after it; no run of a change goes on for more than three times as long as what it is
/// compared with, and none past the end of the budget. Throws where the experiment as it is does
/// not run; a run of it that fails later ends the search with what is known.
report::TuneReport tune(const TuneWish& wish, const report::TuneBaseline& baseline,
                        const TuneTools& tools);

/// Returns the changes of the report's patch.
report::TuneChanges patch_changes(const report::TuneReport& report);

}  // namespace trainctl::study
