#include "stage/stages.hpp"

#include "base/error.hpp"

namespace trainctl::stage {

LossValue Loss::forward_mixed(const at::Tensor& /*logits*/, const MixedTargets& /*targets*/) {
  throw Error(
      ErrorKind::config,
      "the loss does not take the mixed labels of batch_transforms\nhint: choose a loss that "
      "takes them (cross_entropy, nll, bce_with_logits), or remove batch_transforms");
}

}  // namespace trainctl::stage
