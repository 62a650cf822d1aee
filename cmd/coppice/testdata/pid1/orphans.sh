for i in 1 2 3 4 5; do
  sh -c 'setsid sh -c "while ! grep -q \"^PPid:.1\$\" /proc/\$\$/status; do sleep 0.1; done; echo \$\$ >>/tmp/orphans; exit 3" &'
done
exec sleep 100000
