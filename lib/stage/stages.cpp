#include "stage/stages.hpp"

#include "base/error.hpp"

namespace trainctl::stage {

LossValue Loss::forward_mixed(const at::Tensor& /*logits*/, const MixedTargets& /*targets*/) {
  throw Error(ErrorKind::config,
              "the loss does not support mixed labels\nhint: choose cross_entropy, nll or "
              "bce_with_logits, or remove batch_transforms");
}

}  // namespace trainctl::stage
