#pragma once

namespace trainctl::spec {

/// The labels of two samples in a row, each with its share: what batch_transforms make.
struct MixedLabels {};

}  // namespace trainctl::spec
