#include "stage/checkpoint.hpp"

#include "stage/forward_context.hpp"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace trainctl::stage {
namespace {

thread_local bool recomputing = false;

class Recomputing {
 public:
  Recomputing() : was_(std::exchange(recomputing, true)) {}
  ~Recomputing() { recomputing = was_; }
  Recomputing(const Recomputing&) = delete;
  Recomputing& operator=(const Recomputing&) = delete;

 private:
  bool was_;
};

/// Returns the state of the device's default generator.
at::Tensor random_state(at::Device device) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

/// Sets the generator to `state` while this object lives, and restores its former state afterward.
class RandomState {
 public:
  RandomState(at::Device device, const at::Tensor& state)
      : device_(device), found_(random_state(device)) {
    set(state);
  }
  ~RandomState() { set(found_); }
  RandomState(const RandomState&) = delete;
  RandomState& operator=(const RandomState&) = delete;

 private:
  void set(const at::Tensor& state) const {
    at::Generator generator = at::globalContext().defaultGenerator(device_);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(state);
  }

  at::Device device_;
  at::Tensor found_;
};

struct Held : torch::CustomClassHolder {
  explicit Held(Segment held) : segment(std::move(held)), ranks(batch_of_ranks()) {}
  Segment segment;
  BatchOfRanks ranks;  // kept here because on a GPU the backward pass runs on another thread
};

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Checkpoint : torch::autograd::Function<Checkpoint> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const c10::intrusive_ptr<Held>& held) {
    const at::DeviceType device = x.device().type();
    context->saved_data["random"] = random_state(x.device());
    context->saved_data["mixed"] = at::autocast::is_autocast_enabled(device);
    context->saved_data["dtype"] =
        static_cast<std::int64_t>(at::autocast::get_autocast_dtype(device));
    context->saved_data["segment"] = c10::IValue::make_capsule(held);
    context->save_for_backward({x});
    const at::AutoGradMode off(false);
    return held->segment(x.detach());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    const at::Tensor input = x.detach().requires_grad_();
    const auto held =
        c10::static_intrusive_pointer_cast<Held>(context->saved_data["segment"].toCapsule());
    at::Tensor output;
    {
      const RandomState draws(x.device(), context->saved_data["random"].toTensor());
      const at::AutoGradMode on(true);
      const Autocast mixed(x.device().type(),
                           static_cast<at::ScalarType>(context->saved_data["dtype"].toInt()),
                           context->saved_data["mixed"].toBool());
      const Recomputing again;
      const BatchOfRanksScope ranks(held->ranks);
      output = held->segment(input);
    }
    torch::autograd::backward({output}, {gradients[0]});
    return {input.grad(), at::Tensor()};
  }
};

}  // namespace

at::Tensor checkpoint(Segment segment, const at::Tensor& x) {
  if (!at::GradMode::is_enabled() || !x.requires_grad()) return segment(x);
  return Checkpoint::apply(x, c10::make_intrusive<Held>(std::move(segment)));
}

bool is_recomputing() { return recomputing; }

}  // namespace trainctl::stage
