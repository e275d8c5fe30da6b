#pragma once

#include "study/tune/paired_trials.hpp"

namespace trainctl::study {

/// Searches for changes that make the experiment faster.
///
/// The verdict of a first run selects what to try. Each change first gets two pairs of runs. A
/// change that is much faster is decided at once. Of the others, the one with the largest possible
/// gain gets more pairs, twice as many each time, until rule_on() decides it. An accepted change
/// becomes part of the base of later comparisons, and its verdict selects what to try next. The
/// search ends when every promising change is decided or the budget is used up; then the report
/// lists the open changes and how long they would take. Finally the whole patch is compared with
/// the original in separate runs, and changes without a confirmed gain are dropped.
///
/// A first trial starts only if the budget leaves time for it and for the final comparison of an
/// accepted change. A run of a change is killed after three times the duration of its base, and at
/// the end of the budget. Throws when the unchanged experiment does not run; if one of its later
/// runs fails, the search ends with the results so far.
report::TuneReport tune(const TuneOptions& options, const report::TuneBaseline& baseline,
                        const TuneTools& tools);

/// Returns the changes of the report's patch.
report::TuneChanges patch_changes(const report::TuneReport& report);

}  // namespace trainctl::study
