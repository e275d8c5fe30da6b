#include "data/core/transform.hpp"

#include "base/error.hpp"

namespace trainctl::data {

void Transform::apply_to_plan(PlannedImage&, CounterRng&) const {
  ASSERT(!"planned without paints()");
}

}  // namespace trainctl::data
