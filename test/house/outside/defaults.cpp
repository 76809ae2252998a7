// Aggregates of the public library with some members given: the others have defaults, so no warning.
#include <trainyard/trainyard.hpp>

using namespace trainyard;

void make_some() {
  (void)Finding{.code = "x", .message = "y"};
  (void)Location{.file = "x"};
  (void)NoiseOptions{.samples = 5};
  (void)OpNoise{.by_type = {}};
  (void)CompareOptions{.repeats = 2};
  (void)PlaceOptions{.seed = 3};
  (void)Budget{.seconds = 1};
  (void)Placer{.name = "x"};
  (void)Schedule{.policy = Policy::fifo};
  (void)Device{.name = "x"};
  (void)Link{.name = "x", .from = "a", .to = "b"};
  (void)Link{.from = "a", .to = "b"};
  (void)ClusterSpec{.name = "x"};
  (void)ClusterSpec{.devices = {}};
  (void)OpSpec{.name = "x"};
  (void)OutputSpec{.name = "x"};
  (void)PageInput{.title = "x"};
  (void)PageFact{.name = "x"};
  (void)PageValidation{.run = 0};
  (void)Profile{.name = "x"};
  (void)Calibration{.name = "x"};
  (void)CostModel{.co_running = 1};
  (void)Failures{.mtbf_hours = 1};
  (void)MachineChange{.factor = 3};
  (void)WhatIf{.name = "x"};
  (void)TrainingOptions{.optimizer = Optimizer::adam};
  (void)Model{.name = "x"};
  (void)Value{.name = "x"};
  (void)Node{.name = "x"};
  (void)Timeline{.makespan = {}};
  (void)ParallelPlan{};
  (void)Rewrite{};
  (void)Search{.evaluations = 1};
  (void)SchedulePrediction{.makespan = {}};
  (void)FabricSpec{};
  (void)CalibratedOp{.device_kind = "x", .op = "y"};
  (void)TransferSegment{};
  (void)PlacerParameter{.name = "x"};
  (void)CollectiveTable{.points = {}};
  (void)LayerCost{.forward = {}};
  (void)PartitionBin{.times = {}};
  (void)Part{.index = 1};
  (void)&spec_of;
}
