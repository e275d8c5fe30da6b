#include "train/parallel/replicas.hpp"

#include "train/state/weights.hpp"
#include "train/step/step_runner.hpp"

namespace trainctl::train {
namespace {

/// Compares the models of all ranks before the first tensor is sent: ranks that expect different
/// tensors would hang.
void verify_model(const Session& session) {
  if (session.communicator.rank_info().world_size == 1) return;
  std::vector<std::string> lines;
  for (const auto& [name, tensor] : session.model.parameters())
    lines.push_back(dist::description_of(name, tensor));
  for (const auto& [name, tensor] : session.model.buffers())
    lines.push_back(dist::description_of("buffer " + name, tensor));
  dist::verify_equal(session.communicator, lines, "parameters and buffers");
}

}  // namespace

void broadcast_buffers(const Session& session) {
  std::vector<at::Tensor> buffers;
  for (const auto& [name, buffer] : session.model.buffers()) buffers.push_back(buffer);
  if (const stage::TrainedModel* other = session.task.trained()) {
    for (const auto& [name, buffer] : other->model->buffers()) buffers.push_back(buffer);
  }
  session.communicator.broadcast_coalesced(buffers, "broadcast of the buffers");
}

std::unique_ptr<dist::GradSync> synchronize(const Session& session, const Options& options) {
  verify_model(session);
  broadcast_buffers(session);
  dist::BucketOptions buckets = session.buckets;
  if (records_steps(session, options)) buckets.bucketing = dist::Bucketing::hooks;
  buckets.exchanges = options.strategy != spec::Strategy::local_sgd;
  buckets.find_unused = buckets.find_unused || !session.unfreezing.empty();
  buckets.names.clear();
  for (const auto& [name, tensor] : trained_parameters(session.model))
    buckets.names.push_back(name);
  return session.communicator.sync_gradients(trainable(session.model), buckets);
}

}  // namespace trainctl::train
