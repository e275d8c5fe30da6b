#pragma once

#include "config/diagnostics.hpp"
#include "spec/load.hpp"
#include "spec/model_input.hpp"

#include <optional>

namespace trainctl::spec {

/// The model against the samples of training (nothing: not known), and against the file it comes
/// from. Problems go into `diagnostics`.
void check_model(const Loaded& loaded, const std::optional<ModelInput>& input,
                 config::Diagnostics& diagnostics);

}  // namespace trainctl::spec
