#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "profiler/run/cuda/delay_kernels.hpp"
#include "profiler/run/cuda/executor.hpp"
#include "profiler/run/cuda/host_workers.hpp"
#include "profiler/run/cuda/side_copies.hpp"

namespace trainyard::cuda {

/// Memory, gate, events, streams and workers of a plan, made once. A member may depend on those declared before it.
struct CudaExecutor::State {
  const Tables& tables;
  const ExecutionPlan& plan;
  std::vector<Target> targets;
  PartLinks part_links;
  IdMap<DeviceId, Owned> arenas;
  Owned gate_word;
  DevicePointer gate_address = 0;
  std::uint32_t gate_value = 0;
  bool gate_works = true;
  std::vector<std::size_t> queued;         // by stream: queue entries of the step being issued
  std::size_t most_queued = 0;             // largest of these in the last step; 0: none was issued
  std::atomic<std::int64_t> opened_ns{0};  // host time at which the gate opened
  Owned words;                             // by item: the step in which it last ended, for the workers
  DevicePointer words_address = 0;
  std::vector<char> host_waits;                   // by item: an item of the host waits for it
  std::vector<char> stream_waits;                 // by item: an item of another GPU stream waits for it
  std::vector<Owned> starts, ends;                // events by item; null for items of the host
  std::vector<Owned> bases;                       // by first stream of each GPU: time zero, after the gate
  std::vector<Owned> before, after;               // by first stream: two adjacent records before time zero
  std::vector<std::vector<double>> record_ns;     // by first stream: the time between these, in each step
  std::vector<double> record_time_ns;             // by first stream: the median of these
  std::vector<std::size_t> first_stream;          // by stream: the first one on the same GPU
  std::map<int, DelayKernels> delays;             // by GPU whose parts have emulated links
  std::vector<Owned> link_words;                  // by emulated stream between parts: start of the transfer
  std::vector<Owned> bounces;                     // by bounced stream between parts: pinned memory of the host
  std::vector<Owned> marks, joins;                // by item and by stream: for order, without time
  std::vector<Owned> lasts;                       // by stream: the end of a plain step
  std::vector<DeviceId> homes;                    // by stream: the GPU that it lives on; for a host stream, the host
  std::vector<Owned> streams;                     // null for threads of the host
  std::map<std::size_t, SideCopies> side_copies;  // by the first stream of each GPU
  std::map<std::pair<int, bool>, Owned> graphs;   // captured steps, by variant and whether they are plain
  std::unique_ptr<HostWorkers> workers;           // null: all devices are GPUs

  State(const Tables& t, const ExecutionPlan& p, std::vector<Target> where, PartLinks links)
      : tables(t), plan(p), targets(std::move(where)), part_links(links) {}

  const Runtime& cuda() const { return tables.runtime; }
  bool on_host(DeviceId device) const { return targets[device.index()].host; }
  bool on_host(const PlanItem& item) const { return !streams[item.stream]; }
  DeviceId home(const PlanItem& item) const { return homes[item.stream]; }
  int gpu(DeviceId device) const { return targets[device.index()].gpu; }
  void check(Status status, const char* call) const { cuda::check(tables.runtime, status, call); }
  void check_driver(Status status, const char* call) const { cuda::check(tables.driver, status, call); }
  void use(DeviceId device) const { check(cuda().cudaSetDevice(gpu(device)), "cudaSetDevice"); }

  void allocate();
  void enable_peers();
  void make_part_links();
  void make_streams();
  void make_gate();
  void make_workers();

  std::size_t expected_entries() const;
  void open_gate();
  void synchronize() const;
  void close_gate_and_mark_bases(bool gated);
  void make_side_copies();
  void issue(std::size_t at, bool plain, const Launch& launch, const CudaExecutor& executor);
  void issue_inputs(const Launch& launch, const CudaExecutor& executor);
  void issue_step(bool plain, const Launch& launch, const CudaExecutor& executor);
  /// Starts the item's own work, without its waits. Returns the number of launches.
  std::size_t start_work(const PlanItem& item, const Launch& launch, const CudaExecutor& executor) const;
  void run_on_host(std::uint32_t at, const Launch& launch, const CudaExecutor& executor) const;
  // Nanoseconds since the gate opened.
  ItemRun times_of(std::size_t at) const;
  void time_records();
  double end_of_plain_step() const;

  /// Runs one step as one graph (graph_step.cpp).
  void run_graph(const Launch& launch, const ExecuteOptions& options, const CudaExecutor& executor);

 private:
  bool between_parts(const PlanItem& item) const {
    return item.is_transfer && !on_host(item.from) && !on_host(item.to) && gpu(item.from) == gpu(item.to);
  }
  std::size_t copy(const PlanItem& item, Stream stream, const CudaExecutor& executor) const;
  double since_base(std::size_t stream, const Owned& event) const;
  double elapsed(const Owned& from, const Owned& to) const;
  double record_time(std::size_t stream) const;
  ItemRun host_times_of(std::size_t at) const;
  void capture(const Launch& launch, bool plain, const CudaExecutor& executor);
  Owned captured(const Launch& launch, bool plain, const CudaExecutor& executor);
};

}  // namespace trainyard::cuda
