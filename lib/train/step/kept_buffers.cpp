#include "train/step/kept_buffers.hpp"

#include <vector>

namespace trainctl::train {
namespace {

std::vector<at::Tensor> buffers_of(const stage::Model& model) {
  std::vector<at::Tensor> all;
  for (const auto& [name, buffer] : model.buffers()) all.push_back(buffer);
  return all;
}

}  // namespace

KeptBuffers::KeptBuffers(const stage::Model& model) : kept_(buffers_of(model)) {}

void KeptBuffers::put_back_if(const at::Tensor& found_inf) {
  if (found_inf.is_cpu() && found_inf.item<float>() == 0) return;
  kept_.put_back_where(found_inf.squeeze().ne(0));
}

}  // namespace trainctl::train
