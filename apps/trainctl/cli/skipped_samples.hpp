#pragma once

#include "base/json.hpp"
#include "data/loader/skipped_samples.hpp"

#include <string>
#include <vector>

namespace trainctl::app {

struct Context;

/// "warning: 3 samples cannot be read, WHAT:" with the first names and reasons, on stderr; nothing
/// where none is damaged, or under --quiet or --json.
void tell_skipped(const Context& context, const std::vector<data::SkippedSample>& skipped,
                  const std::string& what);
/// The same for a document: their number, and the names and reasons of the first ones.
Json skipped_json(const std::vector<data::SkippedSample>& skipped);

}  // namespace trainctl::app
