#pragma once

#include "events/records.hpp"
#include "stage/stages.hpp"
#include "weights/tensor_names.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace trainctl::train {

/// Which of the offered tensors goes where; `options.last_layer` is found here. Throws as
/// weights::match().
weights::Match match_weights(const stage::Model& model, const std::vector<weights::Entry>& offered,
                             weights::MatchOptions options);

/// Copies the tensors of a safetensors file into the model's, in place and on its device; what is
/// copied where match_weights() says, and `told` gets it. Throws
/// Error(checkpoint) where they do not fit.
void load_weights(const stage::Model& model, const std::filesystem::path& file,
                  weights::MatchOptions options, events::WeightsSet& told);

/// The parameters that the patterns name get no gradient from here on, so that no optimizer sees
/// them. Returns their names. Throws Error(config) for a pattern that names none.
std::vector<std::string> freeze(const stage::Model& model,
                                const std::vector<std::string>& patterns);

}  // namespace trainctl::train
