#pragma once

#include "base/json.hpp"
#include "report/html/html.hpp"

#include <set>
#include <string>
#include <utility>
#include <vector>

// What the sections of a sweep's page read of its document, and its ranked table.

namespace trainctl::report {

/// Key of the experiment file -> value, as a run or a row of the summary tells it.
using ToldOverrides = std::vector<std::pair<std::string, std::string>>;
/// Of {"overrides": {"optimizer.lr": 0.1}} or {"overrides": ["optimizer.lr=0.1"]}.
ToldOverrides overrides_of(const Json& run);
/// Keys that differ between `rows`, or all where none does.
std::set<std::string> varied_keys(const Json& rows);
/// "optimizer.lr=0.1, model.type=cnn", of those keys.
std::string setting_text(const Json& row, const std::set<std::string>& keys);

/// A row a setting, as the sweep ranks them. Nothing where it has no summary.
Html sweep_summary(const Json& sweep, const std::string& metric);

}  // namespace trainctl::report
