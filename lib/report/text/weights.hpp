#pragma once

#include "base/json.hpp"
#include "events/records.hpp"

#include <string>
#include <vector>

namespace trainctl::report {

/// What a run starts from, for people: the counts first, then a line for whatever a reader would
/// not expect, names cut short.
std::vector<std::string> weights_lines(const events::WeightsSet& weights);

/// The whole of it, for manifest.json.
Json weights_document(const events::WeightsSet& weights);

}  // namespace trainctl::report
