"""The files that every exported folder holds.

``build_model.py`` checks the folder's digests (``checked_files``) and the machine (``build_target``, ``processor``,
``linker``), then applies the passes, compares the IR after each of them and the outputs (``rebuild_checks``,
``input_values``), and writes what is built. ``run_model.py`` and ``run_model.cc`` load that (``loader_command``,
``machine_pool``, ``network.h``). The dialect's own part, ``build_steps`` and ``network_loader``, lies in
``standalone/<dialect>/deployment``.

The files import each other by bare names, because in an exported folder they lie side by side.
"""
