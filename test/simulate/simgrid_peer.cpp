// Runs one placed graph on SimGrid and prints the makespan in seconds, with all digits, and the CPU seconds that it
// took. A separate program because SimGrid has one engine per process.
//
// Rules: A device runs one op at a time, in the order in which ops become ready. A tensor crosses once to each other
// device that needs it, one tensor at a time per direction of each pair of devices, in the order of readiness. A
// crossing takes latency + bytes / bandwidth. Ops that become ready together run by id; there must be no other ties.
//
// With the argument `fair`, tensors cross as soon as they are made, and share the links of their routes.
//
// Standard input: DEVICES OPS TENSORS LATENCY_NS BYTES_PER_NS; for each op, DEVICE DURATION_NS; for each tensor,
// PRODUCER BYTES CONSUMER_COUNT CONSUMER... . With `fair`, then LINKS; for each link, BYTES_PER_NS; and for each
// ordered pair of devices, LINK_COUNT LINK... . LATENCY_NS is the latency of each route.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <iostream>
#include <map>
#include <simgrid/s4u.hpp>
#include <string>
#include <utility>
#include <vector>

namespace sg4 = simgrid::s4u;

namespace {

struct Op {
  std::size_t device = 0;
  double duration_ns = 0;
  std::size_t missing = 0;
  std::vector<std::size_t> tensors;
};
struct Tensor {
  std::size_t producer = 0;
  std::uint64_t bytes = 0;
  std::vector<std::size_t> consumers;
};
struct Crossing {
  std::size_t tensor = 0, to = 0;
};

// Queue of a device, or of one direction between two devices: waiting ids and the running activity.
struct Queue {
  std::deque<std::size_t> waiting;
  bool busy = false;
  sg4::ActivityPtr running;
};

class Peer {
 public:
  Peer(std::istream& in, bool fair) : fair_(fair) {
    std::size_t ops = 0, tensors = 0;
    in >> devices_ >> ops >> tensors >> latency_ns_ >> bytes_per_ns_;
    ops_.resize(ops);
    tensors_.resize(tensors);
    for (Op& op : ops_) in >> op.device >> op.duration_ns;
    for (std::size_t t = 0; t < tensors; ++t) {
      Tensor& tensor = tensors_[t];
      std::size_t consumers = 0;
      in >> tensor.producer >> tensor.bytes >> consumers;
      tensor.consumers.resize(consumers);
      for (std::size_t& consumer : tensor.consumers) in >> consumer;
      for (const std::size_t consumer : tensor.consumers) ++ops_[consumer].missing;
      ops_[tensor.producer].tensors.push_back(t);
    }
    device_queues_.resize(devices_);
    link_queues_.resize(devices_ * devices_);
    if (fair_)
      make_shared_platform(in);
    else
      make_platform();
    sg4::Activity::on_completion_cb([this](const sg4::Activity& activity) { completed(activity); });
  }

  bool run(sg4::Engine& engine) {
    std::vector<std::size_t> ready;
    for (std::size_t op = 0; op < ops_.size(); ++op)
      if (ops_[op].missing == 0) ready.push_back(op);
    enqueue_ops(ready);
    engine.run();
    return ended_ == ops_.size();
  }

 private:
  void make_platform() {
    auto* zone = sg4::create_full_zone("node");
    for (std::size_t d = 0; d < devices_; ++d)
      hosts_.push_back(zone->create_host("d" + std::to_string(d), 1e9)->seal());  // 1 flop takes 1 ns
    for (std::size_t from = 0; from < devices_; ++from)
      for (std::size_t to = 0; to < devices_; ++to) {
        if (from == to) continue;
        auto* link = zone->create_link("l" + std::to_string(from) + "-" + std::to_string(to), bytes_per_ns_ * 1e9)
                         ->set_latency(latency_ns_ * 1e-9)
                         ->seal();
        zone->add_route(hosts_[from]->get_netpoint(), hosts_[to]->get_netpoint(), nullptr, nullptr,
                        {sg4::LinkInRoute(link)}, false);
      }
    zone->seal();
  }

  void make_shared_platform(std::istream& in) {
    auto* zone = sg4::create_full_zone("node");
    for (std::size_t d = 0; d < devices_; ++d)
      hosts_.push_back(zone->create_host("d" + std::to_string(d), 1e9)->seal());
    std::size_t count = 0;
    in >> count;
    std::vector<sg4::Link*> links(count);
    for (std::size_t i = 0; i < count; ++i) {
      double bytes_per_ns = 0;
      in >> bytes_per_ns;
      links[i] = zone->create_link("l" + std::to_string(i), bytes_per_ns * 1e9)
                     ->set_sharing_policy(sg4::Link::SharingPolicy::SHARED)
                     ->seal();
    }
    for (std::size_t from = 0; from < devices_; ++from)
      for (std::size_t to = 0; to < devices_; ++to) {
        if (from == to) continue;
        // A separate link has the latency: SimGrid divides bandwidth in inverse proportion to the latency of routes, so
        // all must have the same.
        std::vector<sg4::LinkInRoute> route{
            sg4::LinkInRoute(zone->create_link("w" + std::to_string(from) + "-" + std::to_string(to), 1e18)
                                 ->set_latency(latency_ns_ * 1e-9)
                                 ->set_sharing_policy(sg4::Link::SharingPolicy::FATPIPE)
                                 ->seal())};
        std::size_t length = 0;
        for (in >> length; length > 0; --length) {
          std::size_t link = 0;
          in >> link;
          route.emplace_back(links[link]);
        }
        zone->add_route(hosts_[from]->get_netpoint(), hosts_[to]->get_netpoint(), nullptr, nullptr, route, false);
      }
    zone->seal();
  }

  void completed(const sg4::Activity& activity) {
    retired_.clear();  // frees earlier activities; `activity` must outlive this call
    if (const auto found = running_ops_.find(&activity); found != running_ops_.end()) {
      const std::size_t op = found->second;
      running_ops_.erase(found);
      ++ended_;
      release(device_queues_[ops_[op].device]);
      start_op(ops_[op].device);
      std::vector<std::size_t> ready;
      for (const std::size_t t : ops_[op].tensors) {
        arrive(t, ops_[op].device, ready);
        send(t);
      }
      enqueue_ops(ready);
    } else if (const auto crossing = running_crossings_.find(&activity); crossing != running_crossings_.end()) {
      const auto [tensor, to] = crossings_[crossing->second];
      const std::size_t which = crossing->second, link = link_of(which);
      running_crossings_.erase(crossing);
      if (fair_) {
        retired_.push_back(std::move(flows_[which]));
        flows_.erase(which);
      } else {
        release(link_queues_[link]);
        start_crossing(link);
      }
      std::vector<std::size_t> ready;
      arrive(tensor, to, ready);
      enqueue_ops(ready);
    }
  }

  void release(Queue& queue) {
    queue.busy = false;
    retired_.push_back(std::move(queue.running));
  }
  void arrive(std::size_t tensor, std::size_t device, std::vector<std::size_t>& ready) {
    for (const std::size_t consumer : tensors_[tensor].consumers)
      if (ops_[consumer].device == device && --ops_[consumer].missing == 0) ready.push_back(consumer);
  }
  void enqueue_ops(std::vector<std::size_t>& ready) {
    std::sort(ready.begin(), ready.end());
    for (const std::size_t op : ready) {
      device_queues_[ops_[op].device].waiting.push_back(op);
      start_op(ops_[op].device);
    }
  }
  void send(std::size_t t) {
    std::vector<std::size_t> destinations;
    for (const std::size_t consumer : tensors_[t].consumers)
      if (ops_[consumer].device != ops_[tensors_[t].producer].device) destinations.push_back(ops_[consumer].device);
    std::sort(destinations.begin(), destinations.end());
    destinations.erase(std::unique(destinations.begin(), destinations.end()), destinations.end());
    for (const std::size_t to : destinations) {
      crossings_.push_back({t, to});
      if (fair_) {
        flows_[crossings_.size() - 1] = start(crossings_.size() - 1);
        continue;
      }
      const std::size_t link = link_of(crossings_.size() - 1);
      link_queues_[link].waiting.push_back(crossings_.size() - 1);
      start_crossing(link);
    }
  }
  std::size_t link_of(std::size_t crossing) const {
    return ops_[tensors_[crossings_[crossing].tensor].producer].device * devices_ + crossings_[crossing].to;
  }
  void start_op(std::size_t device) {
    Queue& queue = device_queues_[device];
    if (queue.busy || queue.waiting.empty()) return;
    const std::size_t op = queue.waiting.front();
    queue.waiting.pop_front();
    queue.busy = true;
    const auto exec = sg4::Exec::init();
    exec->set_flops_amount(ops_[op].duration_ns);
    exec->set_host(hosts_[device]);
    running_ops_[exec.get()] = op;
    queue.running = exec;
    exec->start();
  }
  void start_crossing(std::size_t link) {
    Queue& queue = link_queues_[link];
    if (queue.busy || queue.waiting.empty()) return;
    const std::size_t crossing = queue.waiting.front();
    queue.waiting.pop_front();
    queue.busy = true;
    queue.running = start(crossing);
  }
  sg4::ActivityPtr start(std::size_t crossing) {
    const std::size_t pair = link_of(crossing);
    const auto comm = sg4::Comm::sendto_init(hosts_[pair / devices_], hosts_[pair % devices_]);
    comm->set_payload_size(tensors_[crossings_[crossing].tensor].bytes);
    running_crossings_[comm.get()] = crossing;
    comm->start();
    return comm;
  }

  bool fair_ = false;
  std::size_t devices_ = 0;
  double latency_ns_ = 0, bytes_per_ns_ = 0;
  std::vector<Op> ops_;
  std::vector<Tensor> tensors_;
  std::vector<Crossing> crossings_;
  std::vector<sg4::Host*> hosts_;
  std::vector<Queue> device_queues_, link_queues_;
  std::map<const sg4::Activity*, std::size_t> running_ops_, running_crossings_;  // used for lookups only
  std::map<std::size_t, sg4::ActivityPtr> flows_;                                // by crossing, if fair
  std::vector<sg4::ActivityPtr> retired_;
  std::size_t ended_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  sg4::Engine engine(&argc, argv);
  // Plain latency + bytes / bandwidth. The default model multiplies latency by 13.01 and bandwidth by 0.97,
  sg4::Engine::set_config("network/model", std::string("CM02"));
  // caps a flow at its window over its round-trip time,
  sg4::Engine::set_config("network/TCP-gamma", 0.0);
  // lets a flow use 5 % of the reverse route too,
  sg4::Engine::set_config("network/crosstraffic", false);
  // and merges dates within a nanosecond.
  sg4::Engine::set_config("surf/precision", 1e-12);
  auto* peer = new Peer(
      std::cin, argc > 1 && std::string(argv[1]) == "fair");  // never deleted: SimGrid still refers to it at exit
  const std::clock_t from = std::clock();
  const bool all_ended = peer->run(engine);
  const double seconds = static_cast<double>(std::clock() - from) / CLOCKS_PER_SEC;
  std::printf("%.12f\n%.6f\n", sg4::Engine::get_clock(), seconds);
  std::fflush(stdout);
  std::_Exit(all_ended ? 0 : 1);
}
